//! Gives the shared library its name for the dynamic linker. The number is the version of the
//! interface: it changes when earlier linked programs would no longer work.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtransom.so.0");
}
