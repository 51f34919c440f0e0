//! include/transom.h equals the output of cbindgen for the current Rust files. Knows no program and
//! starts none.
//!
//! Route: program.

use std::path::Path;

/// The output of cbindgen.
fn made(folder: &Path) -> String {
    let mut config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("cbindgen.toml is right");
    let [major, minor, patch] =
        [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH")];
    let version = format!(
        "\n\n/* The version of this header; transom_version has that of the library. */\n\
         #define TRANSOM_VERSION_MAJOR {major}\n#define TRANSOM_VERSION_MINOR {minor}\n\
         #define TRANSOM_VERSION_PATCH {patch}"
    );
    config.after_includes = Some(version + &config.after_includes.unwrap_or_default());
    let bindings = cbindgen::Builder::new().with_crate(folder).with_config(config).generate().expect("bindings");
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).expect("text")
}

/// With `TRANSOM_TEST_WRITE=1` in the environment the test writes the header before it compares.
/// Shows A2.
#[test]
fn the_header_is_what_cbindgen_makes_of_the_source() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (path, made) = (folder.join("include/transom.h"), made(folder));
    if std::env::var_os("TRANSOM_TEST_WRITE").is_some() {
        std::fs::write(&path, &made).expect("the header is written");
    }
    let there = std::fs::read_to_string(&path).expect("the header is there");
    let differs = there.lines().zip(made.lines()).position(|(a, b)| a != b);
    let advice = "make it anew: TRANSOM_TEST_WRITE=1 cargo test --package transom-capi --test c_header";
    assert!(there == made, "transom.h differs from line {:?} on; {advice}", differs.map(|line| line + 1));
}
