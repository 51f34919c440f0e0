//! The program `transom-run`: the library's command line.

fn main() -> std::process::ExitCode {
    transom_launch::command_line::main()
}
