//! The parser: from the text of expressions and actions to syntax trees.

use std::iter::Peekable;
use std::str::CharIndices;

/// The maximum nesting depth, which bounds the parser's recursion.
const DEEPEST: u32 = 32;
/// The maximum number of words and symbols in an expression; it also bounds the tree's depth.
const MOST_TOKENS: usize = 256;

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Below,
    AtMost,
    Above,
    AtLeast,
    BitOr,
    BitAnd,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Minimum,
    Maximum,
}

use Operator::*;

/// From the lowest precedence to the highest.
const LEVELS: [&[(&str, Operator)]; 6] = [
    &[("or", Or)],
    &[("and", And)],
    &[
        ("==", Equal),
        ("!=", NotEqual),
        ("<=", AtMost),
        (">=", AtLeast),
        ("<", Below),
        (">", Above),
    ],
    &[("|", BitOr), ("&", BitAnd)],
    &[("+", Add), ("-", Subtract)],
    &[("*", Multiply), ("/", Divide), ("%", Remainder)],
];

/// An expression or an action, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    Number(u64),
    Name(String),
    Not(Box<Tree>),
    Binary(Operator, Box<[Tree; 2]>),
    Call(String, Vec<Tree>),
    /// `name = value`: an action, or a named argument.
    Assign(String, Box<Tree>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Number(u64),
    Word(String),
    Symbol(&'static str),
}

const SYMBOLS: [&str; 17] = [
    "==", "!=", "<=", ">=", "<", ">", "=", "|", "&", "+", "-", "*", "/", "%", "(", ")", ",",
];

/// The tree of an expression; the error says what is wrong with it.
pub(super) fn expression(text: &str) -> Result<Tree, String> {
    let mut parser = Parser::new(text)?;
    let tree = parser.level(0)?;
    parser.end()?;
    Ok(tree)
}

/// The tree of an action: an assignment, a call or a name.
pub(super) fn action(text: &str) -> Result<Tree, String> {
    let mut parser = Parser::new(text)?;
    let tree = parser.argument()?;
    parser.end()?;
    match tree {
        Tree::Assign(..) | Tree::Call(..) | Tree::Name(_) => Ok(tree),
        _ => Err("an action is an assignment, `name = …`, or a call, `name(…)`".to_string()),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut characters = text.char_indices().peekable();
    while let Some(&(at, character)) = characters.peek() {
        if character.is_whitespace() {
            characters.next();
        } else if character.is_ascii_digit() {
            let digits = word(text, at, &mut characters).replace('_', "");
            let number = digits.parse();
            let wrong = |_| format!("{digits} is not a whole number below 2^64");
            tokens.push(Token::Number(number.map_err(wrong)?));
        } else if character.is_ascii_alphabetic() || character == '_' {
            tokens.push(Token::Word(word(text, at, &mut characters).to_string()));
        } else {
            let symbol = SYMBOLS
                .iter()
                .find(|symbol| text[at..].starts_with(**symbol));
            let symbol = symbol.ok_or_else(|| format!("`{character}` has no meaning here"))?;
            for _ in symbol.chars() {
                characters.next();
            }
            tokens.push(Token::Symbol(symbol));
        }
    }
    Ok(tokens)
}

/// The letters, digits, underscores and dots that start at `from`.
fn word<'t>(text: &'t str, from: usize, characters: &mut Peekable<CharIndices<'_>>) -> &'t str {
    let is_inside = |character: char| character.is_ascii_alphanumeric() || "_.".contains(character);
    while characters.next_if(|&(_, next)| is_inside(next)).is_some() {}
    let to = characters.peek().map_or(text.len(), |&(to, _)| to);
    &text[from..to]
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
}

impl Parser {
    fn new(text: &str) -> Result<Parser, String> {
        let tokens = tokens(text)?;
        if tokens.len() > MOST_TOKENS {
            return Err(format!("it has more than {MOST_TOKENS} words and symbols"));
        }
        Ok(Parser {
            tokens,
            at: 0,
            depth: 0,
        })
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Consumes the next token if it is `what`.
    fn takes(&mut self, what: &str) -> bool {
        let is_next = match self.peek() {
            Some(Token::Word(word)) => word == what,
            Some(Token::Symbol(symbol)) => *symbol == what,
            Some(Token::Number(_)) | None => false,
        };
        self.at += usize::from(is_next);
        is_next
    }

    fn needs(&mut self, what: &str) -> Result<(), String> {
        match self.takes(what) {
            true => Ok(()),
            false => Err(format!("`{what}` is missing {}", self.place())),
        }
    }

    fn place(&self) -> String {
        match self.peek() {
            None => "at the end".to_string(),
            Some(Token::Number(number)) => format!("before `{number}`"),
            Some(Token::Word(word)) => format!("before `{word}`"),
            Some(Token::Symbol(symbol)) => format!("before `{symbol}`"),
        }
    }

    fn end(&self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(format!("an operator is missing {}", self.place())),
        }
    }

    fn argument(&mut self) -> Result<Tree, String> {
        if let Some(Token::Word(name)) = self.peek().cloned()
            && self.tokens.get(self.at + 1) == Some(&Token::Symbol("="))
        {
            self.at += 2;
            return Ok(Tree::Assign(name, Box::new(self.level(0)?)));
        }
        self.level(0)
    }

    fn level(&mut self, level: usize) -> Result<Tree, String> {
        let Some(operators) = LEVELS.get(level) else {
            return self.primary();
        };
        let mut left = self.level(level + 1)?;
        let is_comparison = level == 2;
        while let Some(&(_, operator)) = operators.iter().find(|(text, _)| self.takes(text)) {
            let right = self.level(level + 1)?;
            left = Tree::Binary(operator, Box::new([left, right]));
            if is_comparison {
                break;
            }
        }
        Ok(left)
    }

    fn primary(&mut self) -> Result<Tree, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("it is nested deeper than {DEEPEST} levels"));
        }
        let tree = self.primary_inside();
        self.depth -= 1;
        tree
    }

    fn primary_inside(&mut self) -> Result<Tree, String> {
        if self.takes("not") {
            // Its precedence is between `and` and the comparisons.
            return Ok(Tree::Not(Box::new(self.level(2)?)));
        }
        if self.takes("(") {
            let tree = self.level(0)?;
            self.needs(")")?;
            return Ok(tree);
        }
        let place = self.place();
        let name = match self.peek().cloned() {
            Some(Token::Number(number)) => {
                self.at += 1;
                return Ok(Tree::Number(number));
            }
            Some(Token::Word(name)) if !["and", "or", "not"].contains(&name.as_str()) => name,
            _ => return Err(format!("a number or a name is missing {place}")),
        };
        self.at += 1;
        if !self.takes("(") {
            return Ok(Tree::Name(name));
        }
        let mut arguments = Vec::new();
        if !self.takes(")") {
            loop {
                arguments.push(self.argument()?);
                if !self.takes(",") {
                    break;
                }
            }
            self.needs(")")?;
        }
        Ok(Tree::Call(name, arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Tree {
        Tree::Name(text.to_string())
    }

    fn both(operator: Operator, left: Tree, right: Tree) -> Tree {
        Tree::Binary(operator, Box::new([left, right]))
    }

    #[test]
    fn operators_bind_as_usual() {
        let product = both(Multiply, name("b"), Tree::Number(1_000));
        let sum = both(Add, name("a"), product);
        let masked = both(BitAnd, name("header.flags"), name("ACK"));
        let compared = both(AtMost, masked, sum);
        let not = Tree::Not(Box::new(both(Equal, name("x"), Tree::Number(0))));
        assert_eq!(
            expression("header.flags & ACK <= a + b * 1_000 and not x == 0 or y"),
            Ok(both(Or, both(And, compared, not), name("y")))
        );
        let difference = both(Subtract, both(Subtract, name("a"), name("b")), name("c"));
        assert_eq!(expression("a-b-c"), Ok(difference));
    }

    #[test]
    fn actions_are_assignments_and_calls() {
        let call = action("emit(control, ACK, credit = 1)");
        let credit = Tree::Assign("credit".to_string(), Box::new(Tree::Number(1)));
        let arguments = vec![name("control"), name("ACK"), credit];
        assert_eq!(call, Ok(Tree::Call("emit".to_string(), arguments)));
        assert!(action("a == 1").unwrap_err().starts_with("an action is"));
    }

    #[test]
    fn errors_say_where() {
        let wrong = |text: &str| expression(text).unwrap_err();
        assert_eq!(wrong("a +"), "a number or a name is missing at the end");
        assert_eq!(wrong("a b"), "an operator is missing before `b`");
        assert_eq!(wrong("(a"), "`)` is missing at the end");
        assert_eq!(wrong("a $ b"), "`$` has no meaning here");
        assert_eq!(wrong("1 < 2 < 3"), "an operator is missing before `<`");
        let large = "99".repeat(20);
        assert_eq!(
            wrong(&large),
            format!("{large} is not a whole number below 2^64")
        );
        // The number within the parentheses is a level, too.
        let nested = |levels: usize| format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
        assert_eq!(expression(&nested(31)), Ok(Tree::Number(1)));
        assert_eq!(wrong(&nested(32)), "it is nested deeper than 32 levels");
        assert!(wrong(&"not ".repeat(100)).contains("deeper"));
        assert!(wrong(&"1 + ".repeat(100_000)).contains("more than 256"));
    }
}
