//! What the kernel has done to an instance for want of memory, over copies of its files.

use super::tests::{Figure, INSTANCE, OTHER, SECOND, Stage, Version};
use crate::control::message::OomLevel;

/// A kill for a limit above, then some at its own.
#[test]
fn what_the_kernel_has_done_for_want_of_memory() {
    let control = |kills: u64| format!("oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n");
    let events = |own: u64, kills: u64| {
        format!("low 0\nhigh 0\nmax 31\noom {own}\noom_kill {kills}\noom_group_kill 0\n")
    };
    let most = |bytes: &str| ("memory.max_usage_in_bytes", format!("{bytes}\n"));
    for (version, above, own, again) in [
        (
            Version::One,
            vec![
                ("memory.oom_control", control(1)),
                ("memory.limit_in_bytes", "33554432\n".into()),
                most("33550336"),
            ],
            vec![("memory.oom_control", control(3)), most("33554432")],
            vec![("memory.oom_control", control(4))],
        ),
        (
            Version::Two,
            vec![("memory.events", events(0, 1))],
            vec![("memory.events", events(1, 3))],
            vec![("memory.events", events(2, 4))],
        ),
    ] {
        let stage = Stage::new(version);
        let mut measure = stage.measure();
        measure.follow(INSTANCE, version.pid()).unwrap();
        let mut kills = |files: Vec<(&str, String)>| {
            files.iter().for_each(|(name, text)| stage.write(&version.file(name), text));
            measure.look_at(INSTANCE, SECOND).unwrap().kills.unwrap()
        };
        let (none, above, own, again) = (kills(vec![]), kills(above), kills(own), kills(again));
        assert_eq!(above.since(none), Some((OomLevel::Above, 1)));
        assert_eq!(own.since(above), Some((OomLevel::Own, 2)));
        assert_eq!(again.since(own), Some((OomLevel::Own, 1)));
        assert_eq!(again.since(again), None);
        assert!(measure.look_at(OTHER, SECOND).is_none());
    }
}

#[test]
fn odd_counts_of_kills() {
    use Figure::Kills;
    use Version::{One, Two};
    for (version, figure, name, text, why) in [
        (Two, Kills, "memory.events", "oom 1\n", "cannot read `memory.events`: it has no `oom_kill`"),
        (
            Two,
            Kills,
            "memory.events",
            "oom_kill max\n",
            "cannot read `memory.events`: `oom_kill` has no number",
        ),
        (
            One,
            Kills,
            "memory.oom_control",
            "under_oom 0\n",
            "cannot read `memory.oom_control`: it has no `oom_kill`",
        ),
    ] {
        let stage = Stage::new(version);
        stage.write(&version.file(name), text);
        stage.check_instance(version, figure, why);
    }
}
