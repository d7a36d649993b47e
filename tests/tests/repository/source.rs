//! Rust source as a flat list of tokens with their lines: comments and the insides of strings are gone, so a rule that
//! looks for a name finds uses of it and nothing else.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// One token; a group's brackets are tokens of their own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The token as written: an identifier, one punctuation character, a literal, or a bracket.
    pub(crate) text: String,
    /// Its line, counted from 1.
    pub(crate) line: usize,
}

/// The tokens of what is shipped: without the items under `#[cfg(test)]`.
pub(crate) fn shipped(source: &str) -> Result<Vec<Token>, String> {
    flatten(parse(source)?, true)
}

/// The lines on which this run of tokens stands, written with spaces between: `"SystemTime : : now"`.
pub(crate) fn lines_with(tokens: &[Token], wanted: &str) -> Vec<usize> {
    let wanted: Vec<&str> = wanted.split(' ').collect();
    let runs = tokens.windows(wanted.len());
    runs.filter(|run| run.iter().zip(&wanted).all(|(token, text)| token.text == *text)).map(|run| run[0].line).collect()
}

/// The contents of every attribute (`#[…]` and `#![…]`), with its line. Doc comments count as attributes.
pub(crate) fn attributes(source: &str) -> Result<Vec<(usize, Vec<Token>)>, String> {
    let mut found = Vec::new();
    collect_attributes(parse(source)?, &mut found)?;
    Ok(found)
}

fn parse(source: &str) -> Result<TokenStream, String> {
    source.parse().map_err(|error| format!("is not Rust: {error}"))
}

fn flatten(stream: TokenStream, without_tests: bool) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    push_all(stream, without_tests, &mut tokens);
    Ok(tokens)
}

fn push_all(stream: TokenStream, without_tests: bool, tokens: &mut Vec<Token>) {
    let mut rest = stream.into_iter().peekable();
    while let Some(tree) = rest.next() {
        if without_tests && is_punct(&tree, '#') {
            if rest.peek().is_some_and(is_test_attribute) {
                rest.next();
                skip_item(&mut rest);
                continue;
            }
            // `#![cfg(test)]` takes the rest of the module with it.
            if rest.peek().is_some_and(|next| is_punct(next, '!')) {
                rest.next();
                if rest.peek().is_some_and(is_test_attribute) {
                    return;
                }
            }
        }
        push(tree, without_tests, tokens);
    }
}

fn push(tree: TokenTree, without_tests: bool, tokens: &mut Vec<Token>) {
    let line = tree.span().start().line;
    match tree {
        TokenTree::Group(group) => {
            let (open, close) = brackets(&group);
            tokens.push(Token { text: open.to_owned(), line });
            push_all(group.stream(), without_tests, tokens);
            tokens.push(Token { text: close.to_owned(), line: group.span_close().start().line });
        }
        other => tokens.push(Token { text: other.to_string(), line }),
    }
}

/// Skips what an attribute stands on: further attributes, then up to the first block or semicolon. The braces of a `use`
/// are not its end.
fn skip_item(rest: &mut impl Iterator<Item = TokenTree>) {
    let mut import = false;
    let mut first = true;
    while let Some(tree) = rest.next() {
        if is_punct(&tree, '#') {
            rest.next();
            continue;
        }
        if first && tree.to_string() == "use" {
            import = true;
        }
        first = first && tree.to_string() == "pub";
        let block = matches!(&tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        if is_punct(&tree, ';') || (block && !import) {
            return;
        }
    }
}

/// `[cfg(test)]` or `[cfg(all(test, …))]`. With `any` or `not` the item may be shipped, so it is looked at.
fn is_test_attribute(tree: &TokenTree) -> bool {
    let TokenTree::Group(group) = tree else { return false };
    if group.delimiter() != Delimiter::Bracket {
        return false;
    }
    let words: Vec<String> =
        group.stream().to_string().split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect();
    let has = |word: &str| words.iter().any(|found| found == word);
    words.first().is_some_and(|first| first == "cfg") && has("test") && !has("any") && !has("not")
}

fn collect_attributes(stream: TokenStream, found: &mut Vec<(usize, Vec<Token>)>) -> Result<(), String> {
    let mut after_hash = false;
    for tree in stream {
        if let TokenTree::Group(group) = &tree {
            if after_hash && group.delimiter() == Delimiter::Bracket {
                found.push((group.span_open().start().line, flatten(group.stream(), false)?));
            }
            collect_attributes(group.stream(), found)?;
        }
        after_hash = is_punct(&tree, '#') || (after_hash && is_punct(&tree, '!'));
    }
    Ok(())
}

fn is_punct(tree: &TokenTree, character: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn brackets(group: &Group) -> (&'static str, &'static str) {
    match group.delimiter() {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(source: &str, wanted: &str) -> bool {
        !lines_with(&shipped(source).unwrap(), wanted).is_empty()
    }

    #[test]
    fn comments_and_strings_are_no_uses() {
        let source = "// clock::now()\n/// clock::now()\nfn f() { g(\"clock::now()\"); }\n";
        assert!(!has(source, "clock : : now"));
        assert_eq!(lines_with(&shipped("fn f() {\n  a(b![clock::now()]);\n}").unwrap(), "clock : : now"), [2]);
    }

    #[test]
    fn test_items_are_not_shipped_and_what_follows_them_is() {
        assert!(!has("#[cfg(test)]\nmod tests { fn f() { clock::now(); } }", "clock : : now"));
        assert!(!has("#[cfg(test)]\n#[allow(x)]\npub fn f() { clock::now(); }", "clock : : now"));
        assert!(!has("#[cfg(test)]\nuse a::{clock::now, b};", "clock : : now"));
        assert!(!has("fn f() {}\n#![cfg(test)]\nfn g() { clock::now(); }", "clock : : now"));
        assert!(has("#[cfg(test)]\nmod tests;\nfn f() { clock::now(); }", "clock : : now"));
        assert!(has("#[cfg(test)]\nuse a::{b};\nfn f() { clock::now(); }", "clock : : now"));
        assert!(has("#[cfg(not(test))]\nfn f() { clock::now(); }", "clock : : now"));
        assert!(has("#[cfg(any(test, feature = \"x\"))]\nfn f() { clock::now(); }", "clock : : now"));
    }

    #[test]
    fn what_is_not_rust_is_said_to_be_so() {
        assert!(shipped("fn f( {").unwrap_err().contains("not Rust"));
    }
}
