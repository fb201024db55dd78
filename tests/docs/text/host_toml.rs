//! The packaged `host.toml`: every key with its meaning, range and default, all of it commented out.
//!
//! A line that is to be edited begins with `#` and the key; prose begins with `# `. Without any edit the file says
//! nothing, so it can be any layer.

use stoker::profile::{KEYS, Key, Usual};

const HEAD: &str = "\
Stoker's host profile: every key there is, each with what holds without it.

Uncomment what you change. What other layers write holds too, later ones over earlier ones, key by key: \
/usr/lib/stoker/host.toml, /etc/stoker/host.toml, then the drop-ins of /usr/lib/stoker/host.toml.d and \
/etc/stoker/host.toml.d sorted together by name. `stokerctl profile show` tells what holds and from where, \
`stokerctl profile check` every mistake, and `stokerctl reload` has a running stokerd read it anew.

A host needs at least one pool: uncomment one below. The reference is stoker.host(5).";

/// The packaged profile.
pub(crate) fn host_toml() -> String {
    let mut text = prose(HEAD);
    text.push_str("\n[host]\n");
    for key in of("host") {
        text.push_str(&format!("\n{}{}", told(key), line(key, |it| default(it, "sandbox", ""))));
    }
    text.push_str(&prose(
        "\nLatency expectations. interactive and batch are always there; name others as you need them.",
    ));
    text.push_str("\n#[class.interactive]\n");
    for key in of("class.NAME") {
        text.push_str(&format!("\n{}{}", told(key), line(key, |it| default(it, "", "interactive"))));
    }
    text.push_str("\n#[class.batch]\n");
    of("class.NAME").for_each(|key| text.push_str(&line(key, |it| default(it, "", "batch"))));
    text.push_str(&prose(
        "\nAn external service with a rate of its own, which the leases of this host share.",
    ));
    text.push_str("\n#[provider.models]\n");
    for key in of("provider.NAME") {
        text.push_str(&format!("\n{}{}", told(key), line(key, |it| default(it, "", ""))));
    }
    text.push_str(&prose(
        "\nWhat one tenant may have; \"*\" stands for all that have no table of their own.",
    ));
    text.push_str("\n#[tenant.\"*\"]\n");
    for key in of("tenant.NAME") {
        text.push_str(&format!("\n{}{}", told(key), line(key, |it| default(it, "", ""))));
    }
    text.push_str(&prose(
        "\nWhat can be lent: instances of one image with one set of limits. This one is a sandbox.",
    ));
    text.push_str("\n#[pool.python]\n");
    for key in of("pool.NAME").filter(|key| default(&key.usual, "sandbox", "").is_some()) {
        text.push_str(&format!("\n{}{}", told(key), line(key, |it| default(it, "sandbox", ""))));
    }
    text.push_str(&prose("\nA browser has the same keys; these are what is different by default."));
    text.push_str("\n#[pool.chromium]\n#kind = \"browser\"\n#image = \"stoker/chromium:latest\"\n");
    for key in of("pool.NAME") {
        if let Usual::ByKind { browser: Some(value), .. } = key.usual {
            text.push_str(&format!("#{} = {value}\n", key.name));
        }
    }
    text
}

fn of(table: &'static str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.table == table)
}

/// What people are told of a key.
fn told(key: &Key) -> String {
    prose(&format!("{} {}\n{}.", key.meaning, key.reason, capital(&key.range.to_string())))
}

/// The key with its default, to be uncommented; where nothing holds by default, an example that stays a comment.
fn line(key: &Key, value: impl Fn(&Usual) -> Option<&'static str>) -> String {
    match key.usual {
        Usual::Open(what, example) => format!("# By default {what}. Such as: {} = {example}\n", key.name),
        Usual::Is(_) | Usual::Required(_) | Usual::ByKind { .. } | Usual::ByClass { .. } => {
            value(&key.usual).map_or(String::new(), |value| format!("#{} = {value}\n", key.name))
        }
    }
}

/// What holds by default in a pool of this kind or a class of this name.
fn default(usual: &Usual, kind: &str, class: &str) -> Option<&'static str> {
    match *usual {
        Usual::Is(value) | Usual::Required(value) | Usual::Open(_, value) => Some(value),
        Usual::ByKind { browser, sandbox } => {
            if kind == "browser" {
                browser
            } else {
                sandbox
            }
        }
        Usual::ByClass { interactive, .. } if class == "interactive" => Some(interactive),
        Usual::ByClass { batch, .. } if class == "batch" => Some(batch),
        Usual::ByClass { other, .. } => Some(other),
    }
}

/// The same with a capital letter in front.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A text as a comment of lines that fit a terminal.
fn prose(text: &str) -> String {
    const WIDTH: usize = 98;
    let mut out = String::new();
    for paragraph in text.split('\n') {
        if paragraph.is_empty() {
            out.push_str(if out.is_empty() { "\n" } else { "#\n" });
            continue;
        }
        let mut line = String::from("#");
        for word in paragraph.split(' ') {
            if line.chars().count() + 1 + word.chars().count() > WIDTH {
                out.push_str(&format!("{line}\n"));
                line = String::from("#");
            }
            line.push_str(&format!(" {word}"));
        }
        out.push_str(&format!("{line}\n"));
    }
    out
}
