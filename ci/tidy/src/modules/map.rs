//! Compares the map of `src` in ARCHITECTURE.md with the modules. Owns the form of the map: below
//! the line of `src/`, a line for each module, which begins with its name; `; name: ...` adds a
//! module to a line. Independent of files on disk.

use crate::report::Violation;
use std::collections::BTreeSet;

/// The document with the map.
const DOCUMENT: &str = "ARCHITECTURE.md";

/// Modules that the map lacks, and names of the map that are no modules.
pub(crate) fn check(modules: &BTreeSet<String>, texts: &[(String, String)]) -> Vec<Violation> {
    let Some((path, text)) = texts.iter().find(|(path, _)| path == DOCUMENT) else { return Vec::new() };
    let lines = text.lines().enumerate();
    let after: Vec<_> = lines.skip_while(|(_, line)| !line.starts_with("src/ ")).skip(1).collect();
    let block = after.into_iter().take_while(|(_, line)| line.starts_with("  "));
    let mut named = BTreeSet::new();
    let mut found = Vec::new();
    for (index, line) in block {
        let first = line.strip_prefix("  ").filter(|line| !line.starts_with(' '));
        let first = first.and_then(|line| line.split_whitespace().next());
        named.extend(line.split("; ").filter_map(|part| part.split_once(':')).map(|(name, _)| name));
        if let Some(first) = first {
            named.insert(first);
            if !modules.contains(first) {
                let what = format!("the map names `{first}`, which is no module of src");
                found.push(Violation::new(path, index + 1, super::RULE, what));
            }
        }
    }
    for module in modules.iter().filter(|module| !named.contains(module.as_str())) {
        found.push(Violation::new(path, 1, super::RULE, format!("the map lacks the module `{module}` of src")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_has_the_modules_and_no_others() {
        let text = "# A\n\nsrc/            all\n  a             is a; b: is b\n                and more\n  gone          was\nci/    x\n";
        let texts = [(DOCUMENT.to_owned(), text.to_owned())];
        let modules: BTreeSet<String> = ["a", "b", "new"].map(str::to_owned).into();
        let found: Vec<_> = check(&modules, &texts).into_iter().map(|one| (one.line, one.what)).collect();
        let gone = (6, "the map names `gone`, which is no module of src".to_owned());
        assert_eq!(found, [gone, (1, "the map lacks the module `new` of src".to_owned())]);
    }
}
