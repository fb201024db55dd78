//! `stokerctl`: the tool. Arguments in, exit code out.

fn main() -> std::process::ExitCode {
    stoker::ctl::main()
}
