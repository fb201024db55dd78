//! Ending an instance, until a listing no longer shows it.
//!
//! The engine's answers to a removal mean little by themselves: 404 may be a container whose creation is
//! still under way, 409 one whose removal is, and a timeout says nothing. So each round looks by label,
//! ends what is there, and looks again; only an empty look is success. The whole is safe to repeat.

use std::time::Duration;

use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::{RemoveContainerOptionsBuilder, StopContainerOptionsBuilder};

use crate::control::message::InstanceId;
use crate::docker::error::within;
use crate::docker::{ContainerId, Docker, DockerError, has_process, spec};

/// Removing takes some 50 ms; ten parallel ones on a slow disk take seconds, and an engine whose runtime
/// has died waits ten before it gives up.
const REMOVE_WITHIN: Duration = Duration::from_secs(30);

/// What the engine needs on top of the grace: it kills, waits for the runtime, and flushes the output.
const STOP_EXTRA: Duration = Duration::from_secs(20);

/// How long removing and looking may take together, a removal that someone else has under way included.
/// Above one removal's limit, so that a single one that hangs is reported as what it is.
const GONE_WITHIN: Duration = Duration::from_secs(45);
const _: () = assert!(GONE_WITHIN.as_nanos() > REMOVE_WITHIN.as_nanos());

/// Between two looks at whether it is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Docker {
    /// Stops and removes whatever there is of this instance, in whatever state, and returns once a listing
    /// shows nothing. `grace` lies between the polite signal and the kill; zero kills at once.
    ///
    /// It goes by label and needs no container id, so it also ends what a creation left behind whose answer
    /// was lost. A creation that is still under way cannot be seen; the next listing finds it.
    ///
    /// # Errors
    /// As the engine answers, or [`DockerError::StillThere`]; repeating it is safe.
    pub async fn stop_and_remove(&self, instance: InstanceId, grace: Duration) -> Result<(), DockerError> {
        for found in self.containers_of(instance).await? {
            self.stop(instance, &found, grace).await?;
        }
        let ended = tokio::time::timeout(GONE_WITHIN, self.remove_until_gone(instance)).await;
        ended.unwrap_or(Err(DockerError::StillThere { instance, within: GONE_WITHIN }))
    }

    /// The container of this instance, whatever its state.
    ///
    /// # Errors
    /// As the engine answers; only an answer says that there is none.
    pub async fn container_of(&self, instance: InstanceId) -> Result<Option<ContainerId>, DockerError> {
        let found = self.containers_of(instance).await?;
        Ok(found.into_iter().find_map(|found| found.id).map(|id| ContainerId(id.into())))
    }

    /// The polite part. Only an engine that is away ends the attempt: whatever else a stop meets, the
    /// removal kills.
    async fn stop(
        &self,
        instance: InstanceId,
        found: &ContainerSummary,
        grace: Duration,
    ) -> Result<(), DockerError> {
        let (Some(id), Some(state)) = (found.id.as_deref(), found.state) else { return Ok(()) };
        if grace.is_zero() || !has_process(state) {
            return Ok(());
        }
        if state == ContainerSummaryStateEnum::PAUSED {
            // Engines thaw for a stop only when its signal is theirs, and the image may name another.
            let what = format!("unpause instance `{instance}`");
            settled(within(REMOVE_WITHIN, what, self.client.unpause_container(id)).await)?;
        }
        // Whole seconds are all the engine takes; rounded up, as zero would mean no grace at all.
        let seconds = i32::try_from(grace.as_millis().div_ceil(1000)).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::default().t(seconds).build();
        let limit = grace.saturating_add(STOP_EXTRA);
        let what = format!("stop instance `{instance}`");
        settled(within(limit, what, self.client.stop_container(id, Some(options))).await)
    }

    async fn remove_until_gone(&self, instance: InstanceId) -> Result<(), DockerError> {
        loop {
            let found = self.containers_of(instance).await?;
            if found.is_empty() {
                return Ok(());
            }
            for id in found.into_iter().filter_map(|found| found.id) {
                self.remove(instance, &ContainerId(id.into())).await?;
            }
            if self.containers_of(instance).await?.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Kills and removes one container with its anonymous volumes; says nothing of whether it is gone.
    async fn remove(&self, instance: InstanceId, container: &ContainerId) -> Result<(), DockerError> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let what = format!("remove instance `{instance}`");
        let removed =
            within(REMOVE_WITHIN, what, self.client.remove_container(container.as_str(), Some(options)))
                .await;
        match removed {
            Err(error) if !error.is_missing() && !error.is_conflict() => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn containers_of(&self, instance: InstanceId) -> Result<Vec<ContainerSummary>, DockerError> {
        let labels = vec![spec::host_filter(&self.owner), spec::instance_filter(instance)];
        self.find(format!("look for instance `{instance}`"), labels).await
    }
}

/// Lets pass all that a removal by force overcomes.
fn settled(stopped: Result<(), DockerError>) -> Result<(), DockerError> {
    stopped.or_else(|error| if error.is_unreachable() { Err(error) } else { Ok(()) })
}
