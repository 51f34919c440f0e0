//! `transom-run` under another name: cargo passes to tests the paths of programs of their own
//! package only.

fn main() -> std::process::ExitCode {
    transom_launch::command_line::main()
}
