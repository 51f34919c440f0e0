//! Gives the shared library its name for the dynamic linker. Its number is the version of the
//! interface, which `capi/install` also computes: before 1.0 a minor version may change the
//! interface, so the number has both parts.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let [major, minor] =
        ["CARGO_PKG_VERSION_MAJOR", "CARGO_PKG_VERSION_MINOR"].map(|name| std::env::var(name).unwrap());
    let number = if major == "0" { format!("0.{minor}") } else { major };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtransom.so.{number}");
}
