//! `#[derive(State)]` and `#[derive(Plain)]`: every field of a component is walked, in order of
//! declaration, unless its attribute excludes it. The crate `state` documents the attributes.

mod fields;

use fields::{Component, Walked, plain_fields, walked};
use proc_macro::TokenStream;
use proc_macro2::TokenStream as Code;
use quote::quote;
use syn::{Data, DataEnum, DeriveInput, Error, Ident, parse_macro_input};

/// Implements `State` for a struct or an enumeration; see the crate `state`.
#[proc_macro_derive(State, attributes(state))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    state(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

/// Implements `Plain` for a struct or an enumeration; see the crate `state`.
#[proc_macro_derive(Plain, attributes(state))]
pub fn derive_plain(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    plain(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn state(input: &DeriveInput) -> Result<Code, Error> {
    let name = &input.ident;
    let component = Component::of(input)?;
    let generics = component.generics(input);
    let (generics, arguments, bounds) = generics.split_for_impl();
    let body = match &input.data {
        Data::Struct(data) => {
            let Walked { pattern, walks } = walked(&data.fields, component.all.as_ref())?;
            quote! {
                let #name #pattern = self;
                #(#walks)*
            }
        }
        Data::Enum(_) if component.all.is_some() => {
            let sentence = "`all(…)` is for a struct: say it of the fields of each variant";
            return Err(Error::new_spanned(name, sentence));
        }
        Data::Enum(data) => variants(name, data)?,
        Data::Union(_) => return Err(Error::new_spanned(name, "a union cannot be walked")),
    };
    // A walk of only fixed fields does not use the walker.
    let body = quote! { let _ = &walker; #body };
    Ok(if component.only_fields {
        quote! {
            impl #generics #name #arguments #bounds {
                fn walk_fields(&mut self, walker: &mut dyn ::state::Walker) {
                    #body
                }
            }
        }
    } else {
        quote! {
            impl #generics ::state::State for #name #arguments #bounds {
                fn walk(&mut self, walker: &mut dyn ::state::Walker) {
                    #body
                }
            }
        }
    })
}

/// The number of the variant, followed by its fields. A restored value of another variant is first
/// replaced by a blank one.
fn variants(name: &Ident, data: &DataEnum) -> Result<Code, Error> {
    let (mut numbers, mut blanks, mut arms) = (Vec::new(), Vec::new(), Vec::new());
    for (number, variant) in data.variants.iter().enumerate() {
        let number = number as u64;
        let ident = &variant.ident;
        if let Some(attribute) = variant
            .attrs
            .iter()
            .find(|one| one.path().is_ident("state"))
        {
            let sentence = "a variant has no attribute of its own: say it of its fields";
            return Err(Error::new_spanned(attribute, sentence));
        }
        let Walked { pattern, walks } = walked(&variant.fields, None)?;
        numbers.push(quote! { #name::#ident { .. } => #number });
        let blank = plain_fields(&variant.fields);
        blanks.push(quote! { #number => #name::#ident #blank });
        arms.push(quote! { #name::#ident #pattern => { #(#walks)* } });
    }
    let sentence = format!("there is no such {name}");
    Ok(quote! {
        let before: u64 = match self { #(#numbers),* };
        let mut number = before;
        ::state::Walker::number(walker, &mut number);
        if number != before {
            *self = match number {
                #(#blanks,)*
                _ => return ::state::Walker::refuse(walker, #sentence.to_string()),
            };
        }
        match self { #(#arms)* }
    })
}

fn plain(input: &DeriveInput) -> Result<Code, Error> {
    let name = &input.ident;
    let generics = Component::of(input)?.generics(input);
    let (generics, arguments, bounds) = generics.split_for_impl();
    let blank = match &input.data {
        Data::Struct(data) => {
            let fields = plain_fields(&data.fields);
            quote! { #name #fields }
        }
        Data::Enum(data) => match data.variants.first() {
            Some(variant) => {
                let ident = &variant.ident;
                let fields = plain_fields(&variant.fields);
                quote! { #name::#ident #fields }
            }
            None => return Err(Error::new_spanned(name, "there is no variant to begin as")),
        },
        Data::Union(_) => return Err(Error::new_spanned(name, "a union cannot be walked")),
    };
    Ok(quote! {
        impl #generics ::state::Plain for #name #arguments #bounds {
            fn blank() -> Self {
                #blank
            }
        }
    })
}
