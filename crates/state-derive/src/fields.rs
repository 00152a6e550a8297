//! The fields of a struct or a variant, and the walk of each.

use proc_macro2::TokenStream as Code;
use quote::{format_ident, quote};
use syn::punctuated::Punctuated;
use syn::{Attribute, DeriveInput, Error, Field, Fields, Generics, Ident, Token, WherePredicate};

/// The attributes of a whole struct.
#[derive(Default)]
pub struct Component {
    /// The walk of fields without an attribute: `#[state(all(count))]`.
    pub all: Option<How>,
    /// Whether `State` is implemented by hand and calls `walk_fields`: `#[state(fields)]`.
    pub only_fields: bool,
    /// Bounds of the type parameters: `#[state(bound(T: state::Plain))]`.
    pub bounds: Punctuated<WherePredicate, Token![,]>,
}

impl Component {
    /// Reads the attributes of the struct itself.
    pub fn of(input: &DeriveInput) -> Result<Component, Error> {
        let mut component = Component::default();
        for attribute in input
            .attrs
            .iter()
            .filter(|one| one.path().is_ident("state"))
        {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("fields") {
                    component.only_fields = true;
                } else if meta.path.is_ident("all") {
                    let content;
                    syn::parenthesized!(content in meta.input);
                    component.all = Some(How::Word(content.parse()?));
                } else if meta.path.is_ident("bound") {
                    let content;
                    syn::parenthesized!(content in meta.input);
                    component.bounds = Punctuated::parse_terminated(&content)?;
                } else {
                    return Err(meta.error("expected `fields`, `all(…)` or `bound(…)`"));
                }
                Ok(())
            })?;
        }
        Ok(component)
    }

    /// The parameters of `input`, with the bounds.
    pub fn generics(&self, input: &DeriveInput) -> Generics {
        let mut generics = input.generics.clone();
        if !self.bounds.is_empty() {
            generics
                .make_where_clause()
                .predicates
                .extend(self.bounds.clone());
        }
        generics
    }
}

/// The kind of walk of a field.
pub enum How {
    /// One of the words.
    Word(Ident),
    /// A word or the default of its type, for some purposes only.
    Only(Code, Option<Ident>),
}

/// The pattern that destructures the fields, and the statements that walk them.
pub struct Walked {
    /// With braces or parentheses; empty for a unit.
    pub pattern: Code,
    /// A statement for each field.
    pub walks: Vec<Code>,
}

/// The walk of `fields`; those without an attribute use `all`.
pub fn walked(fields: &Fields, all: Option<&How>) -> Result<Walked, Error> {
    let names: Vec<Ident> = fields
        .iter()
        .enumerate()
        .map(|(place, field)| {
            field
                .ident
                .clone()
                .unwrap_or(format_ident!("field_{place}"))
        })
        .collect();
    let mut walks = Vec::new();
    for (field, name) in fields.iter().zip(&names) {
        let own = how(field)?;
        let walk = walk(name, own.as_ref().or(all))?;
        let conditions = conditions(field);
        walks.push(quote! { #(#conditions)* { #walk } });
    }
    let bound = fields.iter().zip(&names).map(|(field, name)| {
        let conditions = conditions(field);
        quote! { #(#conditions)* #name }
    });
    let pattern = match fields {
        Fields::Named(_) => quote! { { #(#bound),* } },
        Fields::Unnamed(_) => quote! { ( #(#bound),* ) },
        Fields::Unit => quote! {},
    };
    Ok(Walked { pattern, walks })
}

/// Blank fields, with braces or parentheses.
pub fn plain_fields(fields: &Fields) -> Code {
    let blanks = fields.iter().map(|field| match &field.ident {
        Some(name) => quote! { #name: ::state::Plain::blank() },
        None => quote! { ::state::Plain::blank() },
    });
    match fields {
        Fields::Named(_) => quote! { { #(#blanks),* } },
        Fields::Unnamed(_) => quote! { ( #(#blanks),* ) },
        Fields::Unit => quote! {},
    }
}

fn conditions(field: &Field) -> impl Iterator<Item = &Attribute> {
    field.attrs.iter().filter(|one| one.path().is_ident("cfg"))
}

fn how(field: &Field) -> Result<Option<How>, Error> {
    let is_state = |one: &&Attribute| one.path().is_ident("state");
    let mut attributes = field.attrs.iter().filter(is_state);
    let Some(attribute) = attributes.next() else {
        return Ok(None);
    };
    if let Some(second) = attributes.next() {
        return Err(Error::new_spanned(second, "a field has one such attribute"));
    }
    let words =
        attribute.parse_args_with(Punctuated::<Ident, Token![,]>::parse_separated_nonempty)?;
    let words: Vec<Ident> = words.into_iter().collect();
    let only = |purpose: Code| match &words[1..] {
        [] => Ok(Some(How::Only(purpose, None))),
        [word] => Ok(Some(How::Only(purpose, Some(word.clone())))),
        more => Err(Error::new_spanned(
            &more[1],
            "at most two words say how a field is walked",
        )),
    };
    match words[0].to_string().as_str() {
        "exact" => only(quote! { == ::state::Purpose::Exact }),
        "apart" => only(quote! { != ::state::Purpose::Compare }),
        _ if words.len() > 1 => Err(Error::new_spanned(
            &words[1],
            "`exact` or `apart` comes first",
        )),
        _ => Ok(Some(How::Word(words[0].clone()))),
    }
}

fn walk(name: &Ident, how: Option<&How>) -> Result<Code, Error> {
    let word = match how {
        None => return Ok(quote! { ::state::State::walk(#name, walker); }),
        Some(How::Only(purpose, word)) => {
            let walk = walk(name, word.clone().map(How::Word).as_ref())?;
            return Ok(quote! {
                if ::state::Walker::purpose(walker) #purpose { #walk } else { let _ = #name; }
            });
        }
        Some(How::Word(word)) => word,
    };
    Ok(match word.to_string().as_str() {
        "fixed" => quote! { let _ = #name; },
        "own" => quote! { #name.walk(walker); },
        "cycle" => quote! { ::state::Walker::cycle(walker, #name); },
        "count" => quote! { ::state::Walker::count(walker, ::state::Counted::counted(#name)); },
        "maybe_cycle" => quote! { ::state::maybe_cycle(#name, walker); },
        "inside" => quote! {
            if let Some(inside) = #name { ::state::State::walk(inside, walker); }
        },
        "cycles" => quote! {
            for cycle in #name.iter_mut() { ::state::Walker::cycle(walker, cycle); }
        },
        "slice" => quote! { ::state::slice(#name, walker); },
        "octets" => quote! { ::state::octets(#name, walker); },
        _ => {
            let sentence = "expected fixed, own, cycle, cycles, maybe_cycle, count, inside, slice, \
                            octets, exact or apart";
            return Err(Error::new_spanned(word, sentence));
        }
    })
}
