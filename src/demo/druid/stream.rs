//! The Kafka stream that the supervisor reads: offsets and lag, by task group.

/// Task groups (`taskCount`); each reads its share of the partitions.
pub(super) const GROUPS: usize = 4;
/// Partitions of the topic.
pub(super) const PARTITIONS: usize = 12;

/// Records that arrive in a real second at the peak of the day.
const ARRIVAL_AT_PEAK: f64 = 4000.0;
/// Records that one task can read in a real second.
const PER_TASK: f64 = 2500.0;

/// What has arrived and what has been read.
#[derive(Default)]
pub(super) struct Stream {
    groups: [Offsets; GROUPS],
}

/// Records of one group's partitions.
#[derive(Clone, Copy, Default)]
struct Offsets {
    arrived: f64,
    read: f64,
}

impl Stream {
    /// Lets records arrive, and the groups that have a reading task read them.
    pub(super) fn flow(&mut self, seconds: f64, load: f64, reading: [bool; GROUPS]) {
        let share = crate::demo::float(GROUPS as u64);
        for (offsets, reads) in self.groups.iter_mut().zip(reading) {
            offsets.arrived += load * ARRIVAL_AT_PEAK * seconds / share;
            if reads {
                offsets.read += (offsets.arrived - offsets.read).min(PER_TASK * seconds);
            }
        }
    }

    /// The partitions of a group with their latest and current offsets.
    pub(super) fn partitions(&self, group: usize) -> impl Iterator<Item = (usize, u64, u64)> {
        let offsets = self.groups.get(group).copied().unwrap_or_default();
        let each = crate::demo::float((PARTITIONS / GROUPS) as u64);
        let (latest, current) = (crate::demo::whole(offsets.arrived / each), crate::demo::whole(offsets.read / each));
        (0..PARTITIONS).filter(move |partition| partition % GROUPS == group).map(move |partition| (partition, latest, current))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_grows_while_a_group_has_no_task_and_is_read_up_afterwards() {
        let mut stream = Stream::default();
        let lag = |stream: &Stream, group| stream.partitions(group).map(|(_, latest, current)| latest - current).sum::<u64>();
        for _ in 0..100 {
            stream.flow(0.1, 0.5, [true, true, true, false]);
        }
        assert_eq!(lag(&stream, 0), 0);
        assert!((4990..=5000).contains(&lag(&stream, 3)), "{}", lag(&stream, 3));
        for _ in 0..100 {
            stream.flow(0.1, 0.5, [true; GROUPS]);
        }
        assert_eq!(lag(&stream, 3), 0);
    }

    #[test]
    fn every_partition_belongs_to_one_group() {
        let stream = Stream::default();
        let mut all: Vec<usize> = (0..GROUPS).flat_map(|group| stream.partitions(group).map(|(partition, _, _)| partition)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..PARTITIONS).collect::<Vec<_>>());
    }
}
