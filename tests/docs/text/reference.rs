//! stoker.host(5): the reference of every key, from the table that the parser is held to.

use roff::{Inline, Roff, bold, roman};
use stoker::profile::{KEYS, Key, Usual};

use super::host_toml::capital;
use super::pages::{preformatted, see_also};

const DESCRIPTION: &[&str] = &[
    "A host profile describes one host to stokerd(8): what of it never belongs to containers, which latency \
     callers expect, and the pools of instances it lends. It is TOML; a size, a time or a share is a text with its \
     unit, such as \"512MiB\", \"1h 30m\" or \"12.5%\", and never a bare number. Every mistake in it is reported at \
     once, with its file, line and a hint, by \"stokerctl profile check\" and by stokerd itself, which does not use a \
     profile that has one.",
];

const LAYERS: &[&str] = &[
    "The profile is what these files hold together. A later one wins, key by key: tables are joined, lists and \
     single values are replaced.",
    "Drop-ins of both folders are sorted together by file name. Where both have one of the same name, that in /etc \
     masks the other; so an empty file there, or a link to /dev/null, takes the package's away. \"stokerctl profile \
     show\" prints what holds, each value with the file and line it comes from.",
    "A pool that an earlier layer describes is taken away by \"enabled = false\" in its table. A variable of env or a \
     folder of tmpfs can be changed by a later layer and not be taken away.",
];

const RELOADING: &[&str] = &[
    "\"stokerctl reload\", or SIGHUP to stokerd, reads all layers anew. A profile with a mistake changes nothing. \
     Else the difference is shown, and holds from then on:",
];

const RELOADED: &[(&str, &str)] = &[
    ("A new pool", "begins, and warms up."),
    (
        "A pool that is gone",
        "takes no work. Who waits for it is refused, its warm instances stop, its leases run to their own end, and \
         with the last of them it is gone.",
    ),
    (
        "A changed template (kind, image, command, env, limits of one instance, user, network, probe)",
        "ends no lease. Warm instances of the older template are exchanged one at a time, and are lent as long as no \
         newer one is warm. If starts of the new template fail, the older ones stay, but for the one that made room \
         where a ceiling or the memory left none.",
    ),
    (
        "Limits, stock, deadlines, classes, the host's reserve",
        "hold for what is decided from then on. A lease keeps the deadlines that it was asked for with, and who waits \
         keeps the wait.",
    ),
    ("host.name", "cannot change while stokerd runs: such a profile is refused as a whole."),
];

const EXAMPLE: &str = "\
[host]
reserve = { memory = \"6%\", cpu = \"2\" }

[class.nightly]
target_wait = \"1h\"
max_wait = \"12h\"

[pool.python]
kind = \"sandbox\"
image = \"stoker/python:latest\"
memory_max = \"1GiB\"
memory_expect = \"128MiB\"
warm = { min = 2, max = 8 }
max_instances = 40";

const DROP_IN: &str = "\
# /etc/stoker/host.toml.d/50-quiet.toml
[pool.python]
warm.min = 0
[pool.chromium]
enabled = false";

/// The page.
pub(super) fn stoker_host() -> String {
    let version = format!("stoker {}", env!("CARGO_PKG_VERSION"));
    let mut page = Roff::new();
    page.control("TH", ["stoker.host", "5", "", &version, "File formats"]);
    page.control("SH", ["NAME"]);
    page.text([roman("stoker.host - the profile of a host that stokerd lends from")]);
    page.control("SH", ["SYNOPSIS"]);
    let files = stoker::profile::VENDOR;
    let ours = stoker::profile::LOCAL;
    let order = [
        format!("{files}/host.toml"),
        format!("{ours}/host.toml"),
        format!("{files}/host.toml.d/*.toml"),
        format!("{ours}/host.toml.d/*.toml"),
    ];
    preformatted(&mut page, order.iter().map(String::as_str));
    page.control("SH", ["DESCRIPTION"]);
    paragraphs(&mut page, DESCRIPTION);
    page.control("SH", ["LAYERS"]);
    paragraphs(&mut page, LAYERS);
    for (name, table, about) in [
        ("[host]", "host", "What concerns the host as a whole."),
        (
            "[class.NAME]",
            "class.NAME",
            "A latency expectation. interactive and batch are always there; NAME is 1 to 32 characters of a-z, 0-9 and \
             -, beginning with a letter.",
        ),
        (
            "[provider.NAME]",
            "provider.NAME",
            "An external service with a rate of its own, such as a model's API, spelled like a class. Leases ask for a permit \
             before each call, and say when it throttled them; see \"stokerctl providers\".",
        ),
        (
            "[tenant.NAME]",
            "tenant.NAME",
            "What one tenant may have. NAME is the user that calls, or uid-N for one without a name; \"*\" stands for all \
             that have no table of their own.",
        ),
        (
            "[pool.NAME]",
            "pool.NAME",
            "Instances of one image with one set of limits, spelled like a class. At least one is required.",
        ),
    ] {
        page.control("SH", [name]);
        page.text([roman(about)]);
        KEYS.iter().filter(|key| key.table == table).for_each(|key| add_key(&mut page, key));
    }
    page.control("SH", ["RELOADING"]);
    paragraphs(&mut page, RELOADING);
    for (what, follows) in RELOADED {
        page.control("TP", []);
        page.text([bold(*what)]);
        page.text([roman(*follows)]);
    }
    page.control("SH", ["EXAMPLES"]);
    page.text([roman("A host that lends sandboxes:")]);
    preformatted(&mut page, EXAMPLE.lines());
    page.control("PP", []);
    page.text([roman("A drop-in that keeps none warm and takes a pool away:")]);
    preformatted(&mut page, DROP_IN.lines());
    let mut text = page.to_roff();
    see_also(&mut text, &[("stokerd", "8"), ("stokerctl", "1")]);
    text
}

fn add_key(page: &mut Roff, key: &Key) {
    page.control("TP", []);
    page.text([bold(key.name)]);
    page.text([roman(format!("{} {}", key.meaning, key.reason))]);
    page.control("IP", []);
    let default: Vec<Inline> = match key.usual {
        Usual::Required(_) => vec![roman("It is required.")],
        Usual::Is(_) | Usual::Open(..) | Usual::ByKind { .. } | Usual::ByClass { .. } => {
            vec![roman("Default: "), roman(format!("{}.", key.usual))]
        }
    };
    let mut line = vec![roman(format!("{}. ", capital(&key.range.to_string())))];
    line.extend(default);
    page.text(line);
}

fn paragraphs(page: &mut Roff, texts: &[&str]) {
    for (number, text) in texts.iter().filter(|text| !text.is_empty()).enumerate() {
        if number > 0 {
            page.control("PP", []);
        }
        page.text([roman(*text)]);
    }
}
