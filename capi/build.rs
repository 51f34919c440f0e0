//! Gives the shared library its name for the dynamic linker. The number is that of the interface:
//! it changes where programs that were linked before would not work any more.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtransom.so.0");
}
