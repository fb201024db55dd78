//! What the engine tells of our containers as it happens.
//!
//! The engine keeps 256 events, skips for those who read slowly and forgets all when it ends. So an event
//! only ever hastens what the next listing would find: ask for events, then list, then go by both.

use std::time::Duration;

use bollard::models::EventMessage;
use bollard::query_parameters::EventsOptionsBuilder;
use futures_util::stream::{self, Stream, StreamExt};

use crate::control::message::InstanceId;
use crate::docker::{Docker, DockerError, spec};

/// The engine sends its headers at once; in whole seconds, as the client rounds down.
const OPENED_WITHIN: Duration = Duration::from_secs(10);

/// Something that became of one of our containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineEvent {
    /// Its first process has ended.
    Died {
        /// Whose.
        instance: InstanceId,
        /// How, where the engine says so.
        exit_code: Option<i64>,
    },
    /// It no longer exists.
    Removed {
        /// Which.
        instance: InstanceId,
    },
    /// The kernel killed a process of it for want of memory; the first one may live on.
    Oom {
        /// Whose.
        instance: InstanceId,
    },
}

impl Docker {
    /// The engine's events on containers of this host's, from the first poll on. Ends after one error, which
    /// also comes when the engine closes the stream in good order.
    pub fn events(&self) -> impl Stream<Item = Result<EngineEvent, DockerError>> + Send + use<> {
        let filters = [
            ("type", vec!["container".to_owned()]),
            ("event", ["die", "destroy", "oom"].map(String::from).to_vec()),
            ("label", vec![spec::host_filter(&self.owner)]),
        ]
        .into_iter()
        .collect();
        let options = EventsOptionsBuilder::default().filters(&filters).build();
        let failed = |cause| DockerError::of("listen to the engine's events".into(), OPENED_WITHIN, cause);
        let told = self.client.clone().with_timeout(OPENED_WITHIN).events(Some(options));
        told.map(move |item| item.map(read).map_err(failed))
            .chain(stream::iter([Err(DockerError::EventsEnded)]))
            .scan(false, |over, item| {
                let go_on = !*over;
                *over = item.is_err();
                std::future::ready(go_on.then_some(item))
            })
            .filter_map(|item| std::future::ready(item.transpose()))
    }
}

/// `None` for what is not about an instance.
fn read(message: EventMessage) -> Option<EngineEvent> {
    let labels = message.actor?.attributes?;
    let instance = labels.get(spec::INSTANCE)?.parse().ok()?;
    match message.action?.as_str() {
        "die" => {
            let exit_code = labels.get("exitCode").and_then(|code| code.parse().ok());
            Some(EngineEvent::Died { instance, exit_code })
        }
        "destroy" => Some(EngineEvent::Removed { instance }),
        "oom" => Some(EngineEvent::Oom { instance }),
        _ => None,
    }
}
