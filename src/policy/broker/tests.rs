//! What the broker's flags say, and which files they may name.

mod alone;

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use super::*;
use crate::cli::Command;
use crate::mountinfo;
use crate::policy::grant::{Role, existing, out_dir};
use crate::policy::testing::{TempDir, held, host};

fn parsed(line: &[&str]) -> Command {
    let line = std::iter::once(&"groom-ns").chain(line).map(OsString::from);
    cli::parse(line).unwrap_or_else(|error| panic!("{}", error.refusal))
}

fn start(temp: &TempDir) -> Start {
    Start {
        dir: held(temp.path()),
        path: temp.path().to_owned(),
    }
}

/// A run with the clone `c`, the out-dir `o` and the read-only folder `r`.
fn of_run(temp: &TempDir, flags: &[&str]) -> Result<(BrokerPolicy, Supplies), Refusal> {
    let Command::Run(run) = parsed(&[&["run"], flags, &["--", "true"]].concat()) else {
        panic!("{flags:?}");
    };
    let cwd = Ok(start(temp));
    let all = [
        existing(Role::Clone, &cwd, Path::new("c"))?,
        out_dir(&cwd, Path::new("o"))?,
        existing(Role::RoFile, &cwd, Path::new("r"))?,
    ];
    let table = mountinfo::read().expect("a mount table");
    let host = host();
    let ground = Ground::of_run(&cwd, &all, &host, &table);
    not_handed_over(&run)?;
    let (policy, log) = super::judge(&run, &ground, |_| None)?.expect("--broker is there");
    let key = key(&run.broker_args.key, None, &ground, true)?;
    Ok((policy, Supplies { key, log }))
}

fn tree() -> TempDir {
    let temp = TempDir::new();
    for dir in ["c", "r", "keys"] {
        temp.dir(dir);
    }
    for file in ["key", "keys/key", "c/key", "r/key", "log"] {
        temp.file(file, "sk-0123456789\n");
    }
    temp
}

#[test]
fn a_whole_run() {
    let temp = tree();
    let (policy, supplies) = of_run(
        &temp,
        &[
            "--broker",
            "custom",
            "--upstream",
            "https://api.example.com/gw/",
            "--auth-header",
            "Authorization:Bearer ",
            "--allow-route",
            "POST /v1/files",
            "--shim-port",
            "8080",
            "--key-file",
            "keys/key",
            "--broker-log",
            "keys/new",
        ],
    )
    .expect("judged");
    assert_eq!(policy.shim_port, 8080);
    assert_eq!(policy.config.provider, Provider::Custom);
    assert_eq!(policy.config.upstream.host, "api.example.com");
    assert_eq!(policy.config.routes.len(), 1);
    assert!(policy.config.auth.is_some() && policy.config.roots.is_empty());
    assert!(matches!(supplies.key, KeySource::File(_, path) if path == temp.at("keys/key")));
    let log = supplies.log.expect("a log");
    assert_eq!((log.path, log.name), (temp.at("keys/new"), "new".into()));
    assert!(!temp.at("keys/new").exists(), "nothing is made");
}

#[test]
fn what_a_provider_brings() {
    let temp = tree();
    for (name, provider) in [
        ("anthropic", Provider::Anthropic),
        ("openai", Provider::OpenAi),
        ("gemini", Provider::Gemini),
    ] {
        let (policy, supplies) = of_run(&temp, &["--broker", name, "--key-stdin"]).expect(name);
        assert_eq!(policy.config.provider, provider);
        assert_eq!(policy.config.upstream.scheme, Scheme::Https);
        assert_eq!(policy.shim_port, 0);
        assert!(matches!(supplies.key, KeySource::Stdin) && supplies.log.is_none());
    }
}

#[test]
fn files_that_the_jail_shows_or_has_chosen() {
    let temp = tree();
    temp.link("c/to-keys", "../keys");
    temp.link("to-keys", "keys");
    temp.link("key-link", "key");
    temp.link("to-c", "c");
    temp.dir("dir");
    let _listener = UnixListener::bind(temp.at("socket")).expect("bind");
    let long = temp.at("long");
    File::create(&long)
        .expect("made")
        .set_len(64 * 1024 + 1)
        .expect("grown");
    std::fs::hard_link(temp.file("named-twice", ""), temp.at("c/named-twice")).expect("a link");
    // Path, and what each of --key-file and --broker-log says to it.
    for (path, key_remedy, log_remedy) in [
        ("key", None, None),
        ("to-keys/key", None, None),
        ("c/key", Some("--clone"), Some("--clone")),
        ("to-c/key", Some("--clone"), Some("--clone")),
        ("c/to-keys/key", Some("its target"), Some("its target")),
        ("r/key", Some("--ro-file"), Some("--ro-file")),
        ("key-link", Some("symbolic link"), Some("symbolic link")),
        ("dir", Some("a folder"), Some("a folder")),
        ("socket", Some("a socket"), Some("a socket")),
        ("key/", Some("names no file"), Some("names no file")),
        ("..", Some("names no file"), Some("names no file")),
        ("none/x", Some("isn't there"), Some("isn't there")),
        ("long", Some("64 KiB"), None),
        ("named-twice", Some("hard links"), None),
        ("new", Some("isn't there"), None),
        ("r/new", Some("isn't there"), Some("--ro-file")),
        ("/proc/self/fd/999", Some("--key-fd 3"), Some("on proc")),
        // The out-dir that is yet to be made.
        ("o", Some("isn't there"), Some("--out-dir")),
        ("/dev/null", Some("a device"), Some("a device")),
        ("/etc/passwd", Some("system"), Some("system")),
    ] {
        let base = ["--broker", "anthropic"];
        let as_key = [&base[..], &["--key-file", path]].concat();
        let as_log = [&base[..], &["--key-stdin", "--broker-log", path]].concat();
        for (flags, remedy, reason) in [
            (as_key, key_remedy, Reason::Key),
            (as_log, log_remedy, Reason::Broker),
        ] {
            let judged = of_run(&temp, &flags);
            match (judged, remedy) {
                (Ok(_), None) => {}
                (Err(refusal), Some(remedy)) => {
                    assert_eq!(refusal.reason, reason, "{flags:?}: {refusal}");
                    assert!(refusal.remedy.contains(remedy), "{flags:?}: {refusal}");
                }
                (judged, _) => panic!("{flags:?}: {judged:?}"),
            }
        }
    }
    assert!(!temp.at("new").exists() && !temp.at("o").exists());
}

#[test]
fn a_log_is_appended_to_and_no_link_followed() {
    let temp = tree();
    let judged = |name: &str| {
        let (cwd, args) = (Ok(start(&temp)), ["--listen", "tcp:0", "--key-stdin"]);
        let Command::Broker(broker) = parsed(&[&["broker", "openai"], &args[..]].concat()) else {
            panic!("{args:?}");
        };
        let reads = || Reads::of_broker(&cwd, &broker);
        own::log(&Ground::alone(&cwd), files::LOG, Path::new(name), reads).expect(name)
    };
    let write = |log: &LogFile| {
        let (fd, is_new) = log.open().expect("open");
        std::io::Write::write_all(&mut File::from(fd), b"line\n").expect("write");
        is_new
    };
    let log = judged("new");
    assert!(write(&log) && !write(&log) && !write(&judged("log")));
    let read = |name| std::fs::read_to_string(temp.at(name)).expect("text");
    assert_eq!(read("new"), "line\nline\n");
    assert_eq!(read("log"), "sk-0123456789\nline\n");
    let mode = std::fs::metadata(temp.at("new"))
        .expect("a file")
        .permissions();
    assert_eq!(mode.mode() & 0o7777, 0o600);
    // What comes there after it was judged.
    let late = judged("late");
    temp.link("late", "key");
    let refusal = late.open().expect_err("a link");
    assert_eq!(refusal.errno.as_deref(), Some("ELOOP"), "{refusal}");
    std::fs::remove_file(temp.at("late")).expect("removed");
    nix::unistd::mkfifo(&temp.at("late"), nix::sys::stat::Mode::S_IRWXU).expect("mkfifo");
    let refusal = late.open().expect_err("a FIFO");
    assert_eq!(refusal.reason, Reason::Broker, "{refusal}");
    assert_eq!(read("key"), "sk-0123456789\n");
}

#[test]
fn files_that_the_caller_may_not_use() {
    let temp = tree();
    let close = |name: &str, mode| {
        std::fs::set_permissions(temp.at(name), Permissions::from_mode(mode)).expect("chmod");
    };
    close("key", 0o000);
    close("keys", 0o500);
    for flags in [
        &["--key-file", "key"][..],
        &["--key-stdin", "--broker-log", "key"],
        &["--key-stdin", "--broker-log", "keys/new"],
    ] {
        let judged = of_run(&temp, &[&["--broker", "openai"], flags].concat());
        // Nothing is closed to root.
        match judged {
            Ok(_) => assert!(nix::unistd::geteuid().is_root(), "{flags:?}"),
            Err(refusal) => assert_eq!(refusal.errno.as_deref(), Some("EACCES"), "{refusal}"),
        }
    }
    close("keys", 0o700);
}

#[test]
fn a_fifo_is_waited_for_unless_nothing_is_read() {
    let temp = tree();
    let fifo = temp.at("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("mkfifo");
    let cwd = Ok(start(&temp));
    let ground = Ground::alone(&cwd);
    files::key(&ground, Path::new("fifo"), false).expect("at once");
    let writer = std::thread::spawn(move || std::fs::write(fifo, "sk"));
    let key = files::key(&ground, Path::new("fifo"), true).expect("a writer came");
    let KeySource::File(fd, _) = key else {
        panic!("{key:?}");
    };
    let mut text = String::new();
    std::io::Read::read_to_string(&mut File::from(fd), &mut text).expect("read");
    assert_eq!(text, "sk");
    writer.join().expect("joined").expect("written");
}

/// Self-signed; nobody has its key.
const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBbjCCARWgAwIBAgIUUXcTPuVrOT+iB+NyvfqyV4yFsy4wCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBdDAgFw0yNjExMjkxNjIyNDJaGA8yMTI2MTEwNTE2MjI0Mlow
DDEKMAgGA1UEAwwBdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABMCHl6XqgDqu
u9Eh2TyE/EcfokdL9d+oeKt7Z+AhF43IBXhC3/nuRCP/62UAUDI67cxAWM2yy5ts
evJw8rjXu16jUzBRMB0GA1UdDgQWBBSkJj0s1Yl1/3MMreruPw15eVMjqDAfBgNV
HSMEGDAWgBSkJj0s1Yl1/3MMreruPw15eVMjqDAPBgNVHRMBAf8EBTADAQH/MAoG
CCqGSM49BAMCA0cAMEQCIGdxUz7WX8atQYRx7vwE9ymFr5ENHFnjRRHYyNrOHgti
AiB1c2S5H1d+jzOaO4uyiqG7fxukoqEHDRFchzuHnO9VUA==
-----END CERTIFICATE-----
";

#[test]
fn certificates() {
    let temp = tree();
    temp.file("ca", &[CERTIFICATE, CERTIFICATE].concat());
    temp.file("large", &CERTIFICATE.repeat(8000));
    temp.file("c/ca", CERTIFICATE);
    temp.file("r/ca", CERTIFICATE);
    temp.link("c/to-ca", "../ca");
    temp.link("ca-link", "ca");
    for (path, remedy) in [
        ("ca", Ok(2)),
        ("ca-link", Ok(2)),
        ("r/ca", Ok(1)),
        ("c/ca", Err("--clone")),
        ("c/to-ca", Err("its target")),
        ("c", Err("--clone")),
        ("keys", Err("a folder")),
        ("none", Err("isn't there")),
        ("large", Err("has more than")),
        ("key", Err("PEM")),
    ] {
        let flags = ["--broker", "gemini", "--key-stdin", "--upstream-ca", path];
        match (of_run(&temp, &flags), remedy) {
            (Ok((policy, _)), Ok(count)) => assert_eq!(policy.config.roots.len(), count),
            (Err(refusal), Err(remedy)) => {
                assert_eq!(refusal.reason, Reason::Broker, "{path}: {refusal}");
                assert!(refusal.remedy.contains(remedy), "{path}: {refusal}");
            }
            (judged, _) => panic!("{path}: {judged:?}"),
        }
    }
}

#[test]
fn flags_that_say_nothing() {
    let temp = tree();
    let base = ["--broker", "anthropic", "--key-stdin"];
    let https = "https://api.example.com";
    for flags in [
        &["--upstream", "http://api.example.com"][..],
        &["--upstream", "api.example.com"],
        &["--upstream", ""],
        &["--upstream", "http://127.0.0.1:1", "--upstream-ca", "key"],
        &["--auth-header", "X-Key"],
        &["--allow-route", "/v1/files"],
        &["--allow-route", ""],
    ] {
        let refusal = of_run(&temp, &[&base[..], flags].concat()).expect_err("refused");
        assert_eq!(refusal.reason, Reason::Usage, "{flags:?}: {refusal}");
        assert!(!refusal.remedy.is_empty(), "{refusal}");
    }
    let custom = ["--broker", "custom", "--key-stdin", "--upstream", https];
    let judged = of_run(&temp, &[&custom[..], &["--auth-header", ": x"]].concat());
    assert_eq!(judged.expect_err("refused").reason, Reason::Usage);
}

#[test]
fn a_variable_is_the_keys_alone() {
    let temp = tree();
    let judged = |flags: &[&str]| {
        let refusal = of_run(&temp, &[&["--broker", "openai"], flags].concat());
        refusal.expect_err("refused")
    };
    let refusal = judged(&["--key-env", "ABSENT", "--env", "OTHER", "--env", "ABSENT"]);
    assert_eq!(refusal.reason, Reason::Usage, "{refusal}");
    let refusal = judged(&["--key-env", "ABSENT", "--env", "ABSENT=dummy"]);
    assert_eq!(refusal.reason, Reason::Key, "{refusal}");
    // What was meant to be a name may be the key.
    let refusal = judged(&["--key-env", "sk-0123456789"]);
    assert_eq!(refusal.reason, Reason::Usage, "{refusal}");
    assert!(!refusal.to_string().contains("sk-"), "{refusal}");
}

#[test]
fn a_proxy_that_is_none() {
    let temp = tree();
    let Command::Run(run) = parsed(&["run", "--broker", "openai", "--key-stdin", "--", "x"]) else {
        panic!("a run");
    };
    let cwd = Ok(start(&temp));
    let judged = super::judge(&run, &Ground::alone(&cwd), |name| {
        (name == "HTTPS_PROXY").then(|| "socks5://proxy".into())
    });
    assert_eq!(judged.expect_err("refused").reason, Reason::Broker);
}
