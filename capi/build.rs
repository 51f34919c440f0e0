//! Sets the SONAME of the shared library, which `capi/install` computes in the same way. Its number
//! is the version of the interface: the major version, and before 1.0 also the minor version, which
//! may then change the interface.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let [major, minor] =
        ["CARGO_PKG_VERSION_MAJOR", "CARGO_PKG_VERSION_MINOR"].map(|name| std::env::var(name).unwrap());
    let number = if major == "0" { format!("0.{minor}") } else { major };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtransom.so.{number}");
}
