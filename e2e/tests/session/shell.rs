//! Runs a documented session in a shell.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use insula_e2e::command::Running;
use insula_e2e::insula::{binary, fake_azure, root, subctl};

/// Separates the output, exit code and errors of each line.
const MARK: &str = "@@@";

/// The expected effect of a line.
pub struct Expect {
    /// The exit code.
    pub code: i32,
    /// The printed texts.
    pub says: &'static [&'static str],
    /// The printed errors, or none.
    pub refused: &'static [&'static str],
}

pub const fn prints(says: &'static [&'static str]) -> Expect {
    Expect {
        code: 0,
        says,
        refused: &[],
    }
}

/// A section of the README.
pub fn section(title: &str) -> String {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, section) = readme.split_once(&format!("\n## {title}\n")).unwrap();
    section.split("\n## ").next().unwrap().to_owned()
}

/// The exit code and output of a line.
pub struct LineResult {
    pub code: String,
    pub out: String,
    pub err: String,
}

/// Runs lines in one shell, as in one terminal.
pub fn run_lines(folder: &Path, lines: &[&str]) -> Vec<LineResult> {
    let line = |line: &&str| format!("{line}\necho {MARK}$?{MARK}; cat err; : >err; echo {MARK}\n");
    let script: String = lines.iter().map(line).collect();
    let said = shell(
        folder,
        &format!("exec 2>>err\ntrap 'kill $(jobs -p)' EXIT\n{script}"),
    )
    .finish_while_printing();
    let parts: Vec<&str> = said.out.split(MARK).collect();
    // Text after a mark starts on a new line.
    let text = |part: &str| part.strip_prefix('\n').unwrap_or(part).to_owned();
    let ended = parts.chunks_exact(3).map(|line| LineResult {
        out: text(line[0]),
        code: text(line[1]),
        err: text(line[2]),
    });
    let ended: Vec<LineResult> = ended.collect();
    assert_eq!(ended.len(), lines.len(), "{said}");
    ended
}

/// Returns the lines of stderr, without those that say when a new kubeconfig expires.
pub fn errors(stderr: &str) -> impl Iterator<Item = &str> {
    let lines = stderr.lines();
    lines.filter(|line| !line.starts_with("the credential of user "))
}

/// Checks what each line printed and how it ended.
pub fn check_lines(lines: &[&str], expected: &[&Expect], ended: &[LineResult]) {
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for ((line, does), ended) in lines.iter().zip(expected).zip(ended) {
        let LineResult { code, out, err } = ended;
        assert_eq!(*code, does.code.to_string(), "{line}:\n{out}{err}");
        let succeeds = does.refused.is_empty();
        assert_eq!(
            errors(err).next().is_none(),
            succeeds,
            "{line}:\n{out}{err}"
        );
        for text in does.says {
            assert!(out.contains(text), "no {text:?} from {line}:\n{out}");
        }
        for text in does.refused {
            assert!(err.contains(text), "no {text:?} from {line}:\n{err}");
        }
    }
}

/// The shell blocks of a page.
pub fn blocks(page: &str) -> Vec<String> {
    let parts = page.split("```sh\n").skip(1);
    let block = |part: &str| part.split("```").next().unwrap_or("").to_owned();
    parts.map(block).collect()
}

/// Sets up a directory like a fresh clone, with kubectl and a `cargo` that provides the binaries
/// already built, and runs the server on a free port.
pub fn set_up(folder: &Path, kubectl: &Path) {
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    symlink(root().join("docs"), folder.join("docs")).unwrap();
    let cargo = format!(
        r#"#!/bin/sh
mkdir -p target/release
[ "$*" = "build --release --bin subctl" ] && exec ln -sf {subctl} target/release/subctl
[ "$1 $2 $3 $4 $5 $6 $7" = "run --release -p insula-testkit --bin fake-azure --" ] && shift 7 && exec {fake_azure} "$@"
[ "$1 $2 $3" = "run --release --" ] || exit 2; shift 3
ln -sf {insula} target/release/insula
[ "$1" = serve ] && set -- "$@" --listen 127.0.0.1:0
exec target/release/insula "$@"
"#,
        subctl = subctl().display(),
        insula = binary().display(),
        fake_azure = fake_azure().display(),
    );
    write_program(&bin.join("cargo"), &cargo);
    // Without a path it is found through PATH.
    let kubectl = format!(
        "#!/bin/sh\nPATH=$OWN_PATH exec {} \"$@\"\n",
        kubectl.display()
    );
    write_program(&bin.join("kubectl"), &kubectl);
}

/// Writes an executable shell script.
pub fn write_program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, executable).unwrap();
}

/// bash with a user's settings, in that directory.
pub fn shell(folder: &Path, script: &str) -> Running {
    let own = std::env::var("PATH").unwrap();
    let mut command = Command::new("bash");
    command
        .arg("-c")
        .arg(script)
        .current_dir(folder)
        .env("HOME", folder)
        .env("OWN_PATH", &own)
        .env("PATH", format!("{}:{own}", folder.join("bin").display()))
        .env_remove("KUBECONFIG");
    Running::start(format!("bash: {script}"), &mut command, "")
}
