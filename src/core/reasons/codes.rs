//! The list of codes. Reasons are grouped as the contract groups them; limits follow.

use std::fmt;

use serde::ser::SerializeMap;

use super::{
    FreeSlots, Gone, Maybe, MoreWorkers, Names, Num, PendingTasks, Rate, Secs, Share, Slots, StartingSlots, Tasks, Vertices, WorkerSize, Workers, reasons,
};
use crate::core::units::Count;

reasons! {
    "Demand": {
        /// The demand fits the present count.
        WithinTarget { current: Count, wanted: Count } "{current} replicas meet the demand, which needs {wanted}";
        /// Capacity lies inside the band around the target, so nothing is moved.
        InsideBand { capacity_per_second: Rate, scale_up_below_per_second: Rate, scale_down_above_per_second: Maybe<Rate> }
            "a capacity of {capacity_per_second} lies between the thresholds of {scale_up_below_per_second} and {scale_down_above_per_second}";
        /// More arrives than the present count can serve at the target utilization.
        DemandAboveCapacity { arrival_per_second: Rate, capacity_per_replica_per_second: Rate, target_utilization: Share, needed: Num }
            "{arrival_per_second} arrive; at {target_utilization} of {capacity_per_replica_per_second} a replica that needs {needed} replicas";
        /// A backlog has to be gone within `catchUpWithin`.
        BacklogCatchUp { backlog_records: Num, arrival_per_second: Rate, capacity_per_replica_per_second: Rate, catch_up_within_seconds: Secs, startup_seconds: Secs, pause_seconds: Secs, target_utilization: Share, needed: Num }
            "{backlog_records} wait and {arrival_per_second} arrive; catching up in {catch_up_within_seconds} ({startup_seconds} start, {pause_seconds} pause) needs {needed} replicas at {target_utilization} of {capacity_per_replica_per_second}";
        /// The delay objective asks for more.
        LagObjective { lag_seconds: Secs, max_lag_seconds: Secs, needed: Num } "the lag is {lag_seconds}, the objective {max_lag_seconds}: that needs {needed} replicas";
        /// Tasks wait for slots.
        PendingTasks { pending_slots: Slots, free_slots: FreeSlots, draining_slots: Slots, starting_slots: StartingSlots, slots_per_worker: WorkerSize, more_workers: MoreWorkers }
            "pending tasks ask for {pending_slots}; with {free_slots}, {draining_slots} on draining workers and {starting_slots}, that takes {more_workers} of {slots_per_worker}";
        /// Copies of a streaming task do not share a worker, so at least so many are needed.
        ReplicasApart { supervisor: String, replicas: Count, workers: Workers } "{supervisor} keeps {replicas} copies of each task, which do not share a worker, and has {workers}";
        /// Threshold mode: backlog by `perReplicaBacklog`.
        LagPerReplica { backlog_records: Num, per_replica_backlog: Num, needed: Num } "a backlog of {backlog_records}, at {per_replica_backlog} a replica, needs {needed} replicas";
        /// Fewer would do.
        SpareCapacity { current: Count, needed: Num } "{needed} of {current} replicas would do";
        /// Nothing waits, nothing arrives, nothing is in work.
        Idle { idle_seconds: Secs, zero_after_seconds: Secs, remaining_seconds: Secs, startup_seconds: Secs } "nothing has waited, arrived or been in work for {idle_seconds}; zero is allowed after {zero_after_seconds}, that is in {remaining_seconds}, and coming back takes {startup_seconds}";
        /// There is demand and nothing runs.
        ScaleFromZero { demand: Num } "a demand of {demand} waits and nothing runs";
        /// Work arrives or is in hand, so at least one stays.
        ActiveTraffic { arrival_per_second: Maybe<Rate>, in_flight: Count } "{arrival_per_second} arrive and {in_flight} are in work, so at least one replica stays";
        /// A part is at its limit.
        Saturated { name: String, busy_ratio: Share, parallelism: Count } "{name} is {busy_ratio} busy at parallelism {parallelism}: it is saturated, and what it could be asked for is at least what it does";
        /// A scheduled lower bound is in force.
        ScheduledFloor { min: Count } "a scheduled floor of {min} is in force";
        /// What a rescale costs and what it brings: the stop, what waits meanwhile, and when the backlog is gone.
        RescalePrice { restart_seconds: Secs, delayed_records: Num, gone_seconds_now: Gone, gone_seconds_after: Gone, slots_now: Count, slots_after: Count }
            "the rescale stops the job for {restart_seconds}, and {delayed_records} records wait for it; what waits is gone {gone_seconds_after} with it, {gone_seconds_now} without; it takes the slots from {slots_now} to {slots_after}";
        /// The capacity at another parallelism is taken from what was measured there, not from a proportion.
        LearnedScaling { name: String, parallelism: Count, capacity_per_second: Rate, proportional_per_second: Rate }
            "{name} is expected to do {capacity_per_second} at parallelism {parallelism}, as learned from earlier counts; in proportion it would be {proportional_per_second}";
        /// How old what waits is, where that had to be estimated.
        LagEstimated { lag_seconds: Secs, method: String, at_least: bool } "what waits is about {lag_seconds} old ({method}; it may be older: {at_least})";
        /// What a change of the members of a group costs, and when that is regained.
        RebalancePrice { pause_seconds: Secs, moved_partitions: Count, of_partitions: Count, delayed_records: Num, gone_seconds: Gone, restore_seconds: Maybe<Secs> }
            "the change moves at least {moved_partitions} of {of_partitions} partitions and stops them for {pause_seconds}: {delayed_records} records wait meanwhile and are read {gone_seconds}; state to restore: {restore_seconds}";
        /// Where a record spends its time.
        QueueDelay { queue_delay_seconds: Secs, processing_seconds: Secs } "a record waits {queue_delay_seconds} before it is read and is worked on for {processing_seconds}: it is the waiting that more replicas shorten";
        /// Another signal asks for this count.
        OtherSignal { name: String, wanted: Count } "the signal {name} asks for {wanted} replicas";
    }
    "Not known or not safe": {
        /// There is no reading.
        NoReading { failure: String, consecutive_failures: u32 } "there is no reading ({failure}); {consecutive_failures} in a row";
        /// The newest reading is too old.
        StaleReading { age_seconds: Secs, stale_after_seconds: Secs } "the reading is {age_seconds} old, more than the {stale_after_seconds} it may be";
        /// A part of the reading is missing.
        IncompleteReading { missing: Names } "the reading is incomplete: missing {missing}";
        /// Parts of the reading contradict each other.
        InconsistentReading { detail: String } "the reading contradicts itself: {detail}";
        /// A number that cannot be true.
        ImplausibleReading { name: String, value: Num, at_most: Num } "{name} of {value} is implausible: at most {at_most} can be true";
        /// A signal fell to zero from one reading to the next.
        SuddenZero { name: String, before: Num } "{name} fell from {before} to 0 in one reading, which is a fault more often than the truth";
        /// A counter went back: a process restarted.
        CounterReset { name: String, before: Num, now: Num } "the counter {name} went back from {before} to {now}: a process restarted, and only what it counted since is known";
        /// The sender's clock is off.
        ClockSkew { skew_seconds: Secs } "the sender's clock differs from ours by {skew_seconds}; ages are corrected for it";
        /// The window of readings is not full: raises are allowed, cuts are not.
        WindowNotFull { have_seconds: Secs, window_seconds: Secs } "the window is not full ({have_seconds} of {window_seconds}): nothing is lowered before it is";
        /// The reading was taken before the last change could show.
        ReadingOlderThanLastChange { reading_age_seconds: Secs, change_age_seconds: Secs } "the reading ({reading_age_seconds} old) is older than the last change ({change_age_seconds} ago)";
        /// What one replica can do is not known.
        CapacityUnknown { detail: String } "the capacity of a replica is not known: {detail}";
        /// What is asked for is not known.
        DemandUnknown { detail: String } "the demand is not known: {detail}";
        /// The job does not run.
        NotRunning { state: String } "the job is {state}, not RUNNING";
        /// Some tasks of the job do not run.
        TasksNotRunning { running: Count, total: Tasks } "{running} of {total} run";
        /// It has been suspended on purpose.
        Suspended { name: String } "{name} is suspended";
        /// The policy says to hold.
        Paused {} "the policy is paused; the wish is shown and not acted on";
        /// The group is rebalancing.
        Rebalancing { state: String } "the group is {state}: rebalancing";
        /// The group rebalances again and again.
        RebalanceStorm { rebalances: Count } "{rebalances} rebalances in the last ten minutes: another change would add one";
        /// It has just started or restarted, or restarts again and again.
        Restarting { detail: String } "{detail}";
        /// A rollout is in progress.
        RolloutInProgress { rollout_seconds: Secs, ready: Maybe<Count>, existing: Maybe<Count> } "a rollout has been in progress for {rollout_seconds}: {ready} of {existing} pods are ready, and more pods would not mend it";
        /// Ready pods are missing from the worker list.
        WorkerListIncomplete { registered: Workers, ready: Maybe<Count>, wanted: Count } "{registered} registered, {wanted} wanted (ready pods: {ready}): the list is incomplete, and nothing is lowered on it";
        /// A pod is listed under several addresses.
        WorkerListedTwice { pods: Names } "listed under several addresses and counted once: {pods}";
        /// Workers that were asked for do not arrive.
        CapacityNotArriving { missing: Workers, since_seconds: Secs, startup_seconds: Secs } "missing for {since_seconds}, though starting takes {startup_seconds}: {missing}, credited no more";
        /// Nothing is produced any more.
        ProducerSilent { silent_seconds: Secs } "nothing has been produced for {silent_seconds}: a dead producer is not an idle one";
        /// A lower wish has to last before it is followed.
        Stabilizing { wanted: Count, held: Count, window_seconds: Secs } "{wanted} is wanted, and {held} was wanted within the last {window_seconds}";
        /// A backlog is being worked off.
        BacklogProcessing { name: String, lag_seconds: Maybe<Secs>, backlog: Num } "{name} is working off a backlog of {backlog} ({lag_seconds} at its input rate): nothing is lowered until it is gone";
        /// The change costs more than it brings.
        ChangeNotWorthwhile { detail: String } "the change is not worthwhile: {detail}";
        /// Someone else changes the count as well.
        ChangedByOthers { times: u32, count: Count, recommended: Count } "the count was set to {count} by someone else, {times} times in a row, where {recommended} was recommended";
        /// The configured fallback is used.
        Fallback { fallback: Count, consecutive_failures: u32, recommended: Count } "after {consecutive_failures} failures the configured fallback of {fallback} gives {recommended}";
        /// "No data" stands for a configured value.
        NoDataConfigured { value: Num } "there is no data point, which is configured to mean {value}";
        /// The hold has lasted for as long as it may.
        HoldExpired { unknown_seconds: Secs, hold_at_most_seconds: Secs } "nothing has been known for {unknown_seconds}, longer than the {hold_at_most_seconds} that a hold may last";
        /// Fields of the policy that this kind does not use.
        PolicyWithoutEffect { fields: Names } "the policy names fields that have no effect on this kind: {fields}";
        /// What was sent as memory is not used.
        MemoryIgnored { detail: String } "the memory that was sent is not used: {detail}";
    }
    "More replicas will not help": {
        /// A partition does not move although someone is assigned to it.
        StuckPartition { partition: String, stuck_seconds: Secs } "{partition} has not moved for {stuck_seconds}: more replicas will not help";
        /// One partition holds the lag.
        HotPartition { partition: String, share: Share } "{partition} holds {share} of the lag: more replicas will not help";
        /// The group has no members.
        NoMembers { replicas: Count } "none of {replicas} replicas is a member of the group";
        /// Replicas are missing from the group.
        MembersMissing { members: Count, replicas: Count } "only {members} of {replicas} replicas are members of the group";
        /// A topic is not read by anyone.
        NotSubscribed { topic: String } "{topic} is left out: no member is assigned to it";
        /// Nothing is committed yet.
        NothingCommitted { detail: String } "nothing is committed: {detail}";
        /// Records were deleted before they were read.
        RetentionLoss { lost: Num } "retention has deleted {lost} records before they were read";
        /// Only transaction markers are left.
        TransactionMarkers { records: Num } "what is left are {records} transaction markers, which nobody can read";
        /// A transaction hangs.
        HangingTransaction { partition: String } "a transaction hangs on {partition}: committed readers wait for it";
        /// The last raise did not raise the throughput.
        IneffectiveScaling { from: Count, to: Count, throughput_before: Rate, throughput_after: Rate } "going from {from} to {to} took what can be processed from {throughput_before} to {throughput_after}, which is no gain worth another raise";
        /// Memory is the bottleneck.
        MemoryPressure { gc_time_ratio: Share, heap_used_ratio: Share, limit: Share } "garbage collection takes {gc_time_ratio} of the time and {heap_used_ratio} of the heap is used (limit {limit}): memory is short, not parallelism";
        /// One subtask is far busier than the others.
        SubtaskSkew { name: String, max_busy_ratio: Share, avg_busy_ratio: Share, parallelism: Count, wanted: Count, needed_by_mean: Num } "the busiest subtask of {name} is {max_busy_ratio} busy, the mean {avg_busy_ratio}: a hot key or partition stays on one subtask at any parallelism; of the {wanted} that the busiest asks for the mean load needs {needed_by_mean} (now {parallelism})";
        /// A vertex is busy although no input is counted.
        BusyWithoutInput { name: String, busy_ratio: Share } "{name} is {busy_ratio} busy without counted input: its capacity cannot be told from this window";
        /// Something downstream cannot take more.
        DownstreamLimit { name: String, parallelism: Count, limit_per_second: Rate, wanted_per_second: Rate, lift: String }
            "{name} takes at most {limit_per_second} of the {wanted_per_second} that are wanted, at the {parallelism} that it can have: more upstream of it will not help; to lift that, {lift}";
        /// No count meets the objective.
        ObjectiveUnreachable { objective_seconds: Secs, reachable_seconds: Maybe<Secs>, detail: String } "no count meets the objective of {objective_seconds}: {detail}; {reachable_seconds} can be met";
        /// Tasks wait although slots are free.
        AssignmentFault { pending: Slots, free: FreeSlots, oldest_seconds: Secs } "{pending} asked for by pending tasks for up to {oldest_seconds}, with {free} at hand: assignment is at fault";
        /// One message cannot be processed.
        PoisonMessage { oldest_seconds: Secs, backlog: Num } "{backlog} old messages wait, the oldest for {oldest_seconds}: something in them cannot be processed";
        /// What waits is already leased.
        LeasedBacklog { outstanding: Count } "{outstanding} of what waits is already leased to someone";
        /// Much of the load is redelivery.
        RedeliveryLoad { expired_per_second: Rate } "{expired_per_second} deadlines expire: much of the load is redelivery";
        /// The select strategy spreads tasks, so workers rarely empty.
        SelectStrategy { strategy: String } "the select strategy {strategy} spreads tasks over all workers, so none becomes empty; fillCapacity would let workers go";
        /// Each instance reads everything.
        PerInstanceGroup { detail: String } "each instance reads everything: {detail}";
        /// Tasks that no worker of this target can take.
        NotPlaceable { tasks: PendingTasks, slots: Slots } "not placeable on any worker that this target can add: {tasks} ({slots})";
        /// Tasks or workers of another category, which are not this target's.
        OtherCategory { categories: Names, workers: Workers, pending: PendingTasks } "of other categories ({categories}), and not counted here: {workers} and {pending}";
        /// Demand over an edge contradicts what the vertex itself counts.
        EdgeContradictsInput { name: String, edge_per_second: Rate, own_per_second: Rate } "the edges say that {edge_per_second} reach {name}, its own counter says {own_per_second}: its own counter is used";
        /// Two estimates of the capacity differ.
        EstimatesDiffer { name: String, busy_based_per_second: Rate, observed_per_second: Rate } "{name} can do {busy_based_per_second} by its busy time and {observed_per_second} as observed at a standing backlog: the truth lies between";
        /// A backlog stands still although capacity seems to be free.
        LagNotShrinking { name: String, backlog: Num, lag_seconds: Secs } "the backlog of {name} ({backlog}, {lag_seconds} at its input rate) does not shrink although capacity seems free: the capacity is doubtful";
    }
    "Work in hand": {
        /// A worker that would go is busy.
        BusyWorker { worker: String, tasks: Tasks, drain_seconds: Maybe<Secs> } "{worker} runs {tasks} and would be the one to go: it is drained first (empty in: {drain_seconds})";
        /// Tasks on a worker that would go are publishing.
        PublishingTasks { worker: String, tasks: Tasks } "publishing their segments: {tasks} on {worker}, which is work in hand";
        /// Items are in work.
        InFlightWork { in_flight: Count } "{in_flight} items are in work";
        /// A worker drains.
        Draining { worker: String, tasks: Tasks, drain_seconds: Maybe<Secs> } "{worker} is disabled and still runs {tasks} (empty in: {drain_seconds})";
        /// The slots of a draining worker are needed: it is given tasks again before a new one is bought.
        WorkerReenabled { worker: String, free_slots: FreeSlots } "{worker} is disabled and has {free_slots} that are needed: enabling it again comes before buying";
        /// Workers are starting and are credited.
        StartingWorkers { starting: Workers, slots: Slots } "starting, and credited: {starting} with {slots}";
        /// Slots are kept for streaming tasks that hand over soon.
        RolloverReserve { slots: Slots, supervisors: Names } "{slots} kept for the hand-over of {supervisors}, which is due soon";
        /// An empty worker still takes tasks and has to be disabled before it goes.
        NotYetDisabled { worker: String } "{worker} is empty and still enabled: it could be given a task at any moment, so it is disabled first";
        /// Workers carry no ordinal, so it is not known which one would go.
        NoOrdinals { workers: Workers } "no ordinal in the host names of {workers}, so which one would go is not known: nothing is lowered unless pods drain themselves";
    }
    also: {
        /// The time goes into the processing.
        ProcessingDelay (QueueDelay) { queue_delay_seconds: Secs, processing_seconds: Secs } "a record waits {queue_delay_seconds} before it is read and is worked on for {processing_seconds}: it is the handler that takes the time";
        /// The last raise has not had the time to show.
        RaiseUnderWay (ReadingOlderThanLastChange) { change_age_seconds: Secs, settles_seconds: Secs } "the last raise was made {change_age_seconds} ago and shows after {settles_seconds}: what piles up meanwhile asks for no more";
        /// What KEDA's Kafka scaler would publish.
        KedaMetric (LagPerReplica) { metric: Num, lag: Num, threshold: Num, needed: Num } "KEDA would publish {metric} for a lag of {lag}; at {threshold} a replica that is {needed} replicas";
        /// Partitions are unlike, and the busiest may meet on one replica.
        SkewedArrival (DemandAboveCapacity) { replicas: Count, busiest_per_second: Rate, capacity_per_replica_per_second: Rate, needed: Count }
            "partitions are unlike: with {replicas} replicas one of them may be given {busiest_per_second} and can read {capacity_per_replica_per_second}; {needed} keep the busiest within its limit";
        /// A partition's end went back.
        TopicRecreated (CounterReset) { partition: String, before: Num, now: Num } "the end of {partition} went back from {before} to {now}: the topic has been created anew or truncated, and what was measured before tells nothing";
        /// A commit went back.
        CommitWentBack (CounterReset) { partition: String, before: Num, now: Num } "the commit of {partition} went back from {before} to {now}: records are read again, and how fast is not known yet";
        /// Commits lie beyond the end.
        CommitBeyondEnd (InconsistentReading) { partitions: Names } "the commit lies beyond the end of {partitions}: the topic was created anew or truncated, or the two were read at different moments; nothing is counted there";
        /// Commits are about to be forgotten.
        CommitsExpire (NothingCommitted) { left_seconds: Secs } "the group has no members, and the broker forgets its commits in {left_seconds}: a consumer has to run before that";
        /// A topic is gone, and its commits are left.
        TopicGone (NotSubscribed) { topic: String } "{topic} is left out: it no longer exists, and only commits are left of it";
        /// Fewer consumers than the threads of the replicas.
        ConsumersMissing (MembersMissing) { members: Count, replicas: Count, threads: Count } "only {members} consumers are members of the group, where {replicas} replicas have {threads} threads each";
        /// Few of many partitions hold the lag.
        HotPartitions (HotPartition) { hot: Count, of: Count, share: Share, partitions: Names } "the lag is on {hot} of {of} partitions ({partitions}, which hold {share} of it): each has one consumer, so more replicas will not help";
        /// More arrives on a partition than one consumer can read.
        HotArrival (HotPartition) { partition: String, arrival_per_second: Rate, consumer_per_second: Rate, grows_per_second: Rate } "{arrival_per_second} arrive on {partition} and one consumer reads {consumer_per_second}: its lag grows by {grows_per_second} with any number of replicas";
        /// Records that nobody can read.
        ResidualRecords (TransactionMarkers) { partitions: Count, records: Num, most: Num } "what is left are {records} transaction markers ({partitions} partitions x {most} at most), which nobody can read: they are no work";
        /// A transaction is open.
        OpenTransaction (HangingTransaction) { records: Num, partitions: Names } "{records} records wait behind an open transaction on {partitions}: committed readers cannot have them yet";
        /// Records are deleted soon.
        RetentionNear (RetentionLoss) { topic: String, left_seconds: Secs, retention_seconds: Secs, lag_seconds: Secs } "{topic} keeps records for {retention_seconds} and the oldest unread one is {lag_seconds} old: it is deleted in {left_seconds} unless it is read";
        /// Most of what is retained is unread.
        RetentionShare (RetentionLoss) { partition: String, share: Share, margin: Num } "{share} of what is retained on {partition} is unread, and retention is {margin} records behind the commit";
        /// Offsets of a compacted topic count more than its records.
        CompactedTopic (LagEstimated) {} "the topic is compacted, so that offsets count records that are gone: what waits is at most that much";
        /// A supervisor has to catch up.
        TasksCatchUp (BacklogCatchUp) { backlog_records: Num, arrival_per_second: Rate, capacity_per_task_per_second: Rate, catch_up_within_seconds: Secs, startup_seconds: Secs, pause_seconds: Secs, target_utilization: Share, needed: Num }
            "{backlog_records} records wait and {arrival_per_second} arrive; catching up in {catch_up_within_seconds} ({startup_seconds} start, {pause_seconds} pause) needs {needed} tasks at {target_utilization} of {capacity_per_task_per_second}";
        /// What waits is reason enough, although what arrives is not known.
        BacklogAlone (BacklogCatchUp) { backlog_records: Num, capacity_per_replica_per_second: Rate, catch_up_within_seconds: Secs, needed: Num }
            "{backlog_records} wait, and what arrives is not known; the backlog alone needs {needed} at {capacity_per_replica_per_second} each to be gone in {catch_up_within_seconds}";
        /// More arrives than the tasks of a supervisor can read.
        TasksDemand (DemandAboveCapacity) { arrival_per_second: Rate, capacity_per_task_per_second: Rate, target_utilization: Share, needed: Num }
            "{arrival_per_second} arrive; at {target_utilization} of {capacity_per_task_per_second} a task that needs {needed} tasks";
        /// The tasks of a supervisor are busier than they should be.
        TasksBusy (DemandAboveCapacity) { groups: Count, busy_ratio: Share, target_utilization: Share, needed: Num }
            "{groups} tasks are {busy_ratio} busy; at {target_utilization} that is work for {needed} tasks";
        /// The tasks of a supervisor are as busy as they should be.
        TasksBusyEnough (WithinTarget) { groups: Count, busy_ratio: Share, target_utilization: Share } "{groups} tasks are {busy_ratio} busy, which is what {target_utilization} asks for";
        /// The tasks of a supervisor are enough.
        TasksWithin (WithinTarget) { current: Count, arrival_per_second: Rate, capacity_per_task_per_second: Rate, needed: Num }
            "{arrival_per_second} arrive and a task reads {capacity_per_task_per_second}: {needed} tasks are needed, and there are {current}";
        /// The lag of a supervisor is within its objective.
        LagWithin (WithinTarget) { lag_seconds: Secs, max_lag_seconds: Secs } "the lag is {lag_seconds}, within the objective of {max_lag_seconds}";
        /// Fewer tasks of a supervisor would do.
        TasksSpare (SpareCapacity) { current: Count, arrival_per_second: Maybe<Rate>, needed: Num } "{needed} of {current} tasks would do; arrivals: {arrival_per_second}";
        /// The lag of a supervisor is beyond its objective.
        TasksLag (LagObjective) { lag_seconds: Secs, max_lag_seconds: Secs, needed: Num } "the lag is {lag_seconds}, the objective {max_lag_seconds}: that needs {needed} tasks, and nothing is lowered meanwhile";
        /// Enough readings lie at or above the upper threshold.
        LagAboveThreshold (LagObjective) { readings: Count, share: Share, threshold: Num, needed: Count } "{share} of {readings} readings have a lag of {threshold} or more: {needed} tasks are the next step";
        /// Enough readings lie at or below the lower threshold.
        LagBelowThreshold (SpareCapacity) { readings: Count, share: Share, threshold: Num, needed: Count } "{share} of {readings} readings have a lag of {threshold} or less: {needed} tasks are the next step";
        /// Neither threshold is met by enough readings.
        LagBetweenThresholds (InsideBand) { readings: Count, above: Share, below: Share } "of {readings} readings {above} lie above the upper and {below} below the lower threshold, too few for a step";
        /// An idle supervisor is left alone.
        SupervisorIdle (Idle) { supervisor: String } "{supervisor} is idle: its stream is silent, and it goes on by itself when records come";
        /// Slots are free, and what waits cannot have them.
        FreeSlotsUnfit (PendingTasks) { free: FreeSlots, why: Names } "{free}, of which what is left can have none: {why}";
        /// Supervisors are going to need more slots.
        SupervisorsNext (PendingTasks) { slots: Slots, supervisors: Names } "{slots} more for the tasks that {supervisors} should have next";
        /// A supervisor does not run.
        SupervisorState (NotRunning) { supervisor: String, state: String } "{supervisor} is {state}, not RUNNING: another number of tasks would not mend that";
        /// The Overlord has just started.
        OverlordRestarted (Restarting) { uptime_seconds: Secs, reading_tasks: Maybe<Count>, publishing_tasks: Maybe<Count> }
            "the Overlord restarted {uptime_seconds} ago and does not know all of its tasks yet (reading: {reading_tasks}, handing off: {publishing_tasks}): the count of the spec stands";
        /// The offsets are too old.
        OffsetsStale (StaleReading) { age_seconds: Secs, stale_after_seconds: Secs } "the offsets were fetched {age_seconds} ago, more than the {stale_after_seconds} they may be old";
        /// There are too few readings in the window.
        TooFewReadings (WindowNotFull) { have: Count, needed: Count, window_seconds: Secs } "{have} of {needed} samples are present in the window of {window_seconds}: nothing is changed before they are";
        /// A shard is far behind the others.
        HotShard (HotPartition) { partition: String, lag_seconds: Secs, others_at_most_seconds: Secs } "partition {partition} is {lag_seconds} behind, the others at most {others_at_most_seconds}: more tasks will not help";
        /// Tasks of a supervisor hand over.
        TasksPublishing (PublishingTasks) { supervisor: String, tasks: Tasks } "publishing their segments: {tasks} of {supervisor}, which hand over before anything is changed";
        /// Groups hand over a few at a time, so that some always publish.
        GroupsPublishing (PublishingTasks) { supervisor: String, tasks: Tasks } "publishing their segments: {tasks} of {supervisor}, a few groups at a time; a raise need not wait for them, and a cut does";
        /// A change needs more slots than there are for a while.
        HandOverSlots (RolloverReserve) { needed: Count, available: Count }
            "while the old tasks publish the change takes up to {needed} slots, and {available} can be had: the new ones may wait for them";
        /// More tasks are wanted than there are slots for.
        SlotsShort (PendingTasks) { tasks: Count, copies: Count, needed: Count, available: Count, short: Count }
            "{tasks} tasks with {copies} copies each need {needed} slots and {available} can be had: more workers are needed, with {short} slots";
        /// Tasks that there are have no slots.
        TasksWithoutSlots (PendingTasks) { tasks: Count, copies: Count, needed: Count, available: Count, short: Count }
            "{tasks} tasks with {copies} copies each need {needed} slots and {available} can be had: the others wait for {short} more, or for fewer tasks";
        /// A vertex has to process more than it can at the aimed utilization.
        VertexDemand (DemandAboveCapacity) { name: String, parallelism: Count, target_per_second: Rate, capacity_per_second: Rate, target_utilization: Share, needed: Num }
            "{name} has to process {target_per_second} and can do {capacity_per_second} at parallelism {parallelism}; at {target_utilization} busy that needs {needed}";
        /// A vertex has to catch up as well.
        VertexCatchUp (BacklogCatchUp) { name: String, parallelism: Count, target_per_second: Rate, catch_up_per_second: Rate, capacity_per_second: Rate, catch_up_within_seconds: Secs, restart_seconds: Secs, target_utilization: Share, needed: Num }
            "{name} has to process {target_per_second} and another {catch_up_per_second} to catch up in {catch_up_within_seconds}, after {restart_seconds} of restart; it can do {capacity_per_second} at parallelism {parallelism}, and {target_utilization} busy needs {needed}";
        /// A vertex is busier than it is meant to be, and is not lowered.
        BusyAboveTarget (Saturated) { name: String, busy_ratio: Share, parallelism: Count, target_utilization: Share }
            "{name} is {busy_ratio} busy at parallelism {parallelism}, above the {target_utilization} that it is meant to be: it is not lowered, whatever its edges say";
        /// A cut frees too little for its stop.
        CutNotWorthwhile (ChangeNotWorthwhile) { restart_seconds: Secs, delayed_records: Num, freed_slots: Count, slots_now: Count, pays_back_seconds: Gone, horizon_seconds: Secs }
            "the cut would stop the job for {restart_seconds}, with {delayed_records} records waiting, and free {freed_slots} of {slots_now} slots: that pays back {pays_back_seconds}, and has to within {horizon_seconds}";
        /// Further cuts are nearly through their window, and one stop does for all.
        CutsDueSoon (Stabilizing) { seconds: Secs } "further cuts are due in {seconds}: one stop will do for all of them";
        /// A raise would not have the backlog gone sooner.
        RaiseNotWorthwhile (ChangeNotWorthwhile) { restart_seconds: Secs, delayed_records: Num, gone_seconds_now: Secs, gone_seconds_after: Gone }
            "the raise would stop the job for {restart_seconds}, with {delayed_records} records waiting: the backlog is gone in {gone_seconds_now} as it is, and {gone_seconds_after} with the raise";
        /// Garbage collection slows the subtasks; of the heap nothing is known.
        GcPressure (MemoryPressure) { gc_time_ratio: Share, limit: Share } "garbage collection takes {gc_time_ratio} of the time (limit {limit}): memory is short, not parallelism";
        /// The heap is full; of garbage collection nothing is known.
        HeapPressure (MemoryPressure) { heap_used_ratio: Share, limit: Share } "{heap_used_ratio} of the heap is used (limit {limit}): memory is short, not parallelism";
        /// A vertex has the parallelism that its demand needs.
        VertexWithin (WithinTarget) { name: String, parallelism: Count, target_per_second: Rate, capacity_per_second: Maybe<Rate>, needed: Num }
            "{name} has to process {target_per_second} and can do {capacity_per_second} at parallelism {parallelism}; {needed} would do, and that is this parallelism rounded up";
        /// When streaming tasks hand over is not known.
        HandOverUnknown (RolloverReserve) { slots: Slots, supervisors: Names } "when {supervisors} hand over is not known, and that takes {slots} more: nothing is lowered";
        /// Two workers of a pool have one ordinal.
        OrdinalTwice (NoOrdinals) { ordinal: Count, category: String } "several workers of {category} have the ordinal {ordinal}, so which one would go is not known: nothing is lowered unless pods drain themselves";
        /// Workers of another category have higher ordinals in the same set.
        OrdinalsShared (NoOrdinals) { category: String } "workers of another category have higher ordinals in the same StatefulSet than those of {category}, and would go first: nothing is lowered unless pods drain themselves";
        /// More workers are listed than the wanted count is about.
        WorkersBeyondCount (WorkerListIncomplete) { registered: Workers, wanted: Count } "{registered} registered, {wanted} wanted: which of them that count would take away is not known, and nothing is lowered on it";
        /// Workers are in the list no more that were not drained.
        WorkersVanished (WorkerListIncomplete) { registered: Workers, before: Count, within_seconds: Secs } "{registered} registered, {before} within the last {within_seconds}, and those that are gone were not seen drained: a list that shrinks is a fault more often than the truth, and nothing is lowered on it";
        /// MIDAS waits until a raise has arrived, however long.
        MidasWaits (CapacityNotArriving) { target: Count, registered: Count } "MIDAS does nothing before exactly {target} workers are registered after its last raise; {registered} are";
        /// MIDAS's test whether a worker may be disabled.
        MidasRoom (SpareCapacity) { candidate: Count, limit: Tasks, remaining: Tasks, disables: bool } "by MIDAS's rule {limit} fit below ordinal {candidate} and {remaining} run elsewhere (disabled when more fit: {disables})";
        /// A vertex could do with less.
        VertexSpare (SpareCapacity) { name: String, parallelism: Count, target_per_second: Rate, capacity_per_second: Maybe<Rate>, target_utilization: Share, needed: Num }
            "{name} has to process {target_per_second} and can do {capacity_per_second} at parallelism {parallelism}; {needed} would do at {target_utilization} busy";
        /// A vertex inside its band goes along with a rescale that another one needs.
        RaisedAlong (InsideBand) { name: String } "{name} alone would not be worth a rescale; so near its limit it would be the next, and goes along with this one";
        /// All vertices are inside their bands.
        JobInsideBand (InsideBand) { vertices: Vertices, busiest: String, busy_ratio: Maybe<Share> } "{vertices} inside the band of capacity; the busiest is {busiest} at {busy_ratio}";
    }
}

/// The code of a limit.
macro_rules! limits {
    ($( $(#[doc = $doc:literal])+ $name:ident ($($bind:ident),*) $sentence:literal; )+) => {
        /// What cut or raised the wish.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum LimitCode { $( $(#[doc = $doc])+ $name, )+ }

        impl LimitCode {
            /// All codes.
            pub const ALL: &'static [Self] = &[ $( Self::$name, )+ ];

            /// The name on the wire.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$name => stringify!($name), )+ }
            }

            /// What it says, for the documentation.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $( Self::$name => concat!($($doc),+), )+ }
            }
        }

        impl fmt::Display for super::Limit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.code { $( LimitCode::$name => { $( let $bind = self.$bind(); )* write!(f, $sentence) } )+ }
            }
        }
    };
}

limits! {
    /// The lower bound.
    MinReplicas (at) "at least {at} are kept";
    /// The upper bound.
    MaxReplicas (at) "at most {at} are allowed";
    /// Partitions keep at most so many busy.
    PartitionLimit (at, to) "{at} partitions keep at most {to} busy";
    /// The configured minimum is above the number of partitions.
    MinAbovePartitions (at) "the minimum is above the {at} that partitions keep busy";
    /// Key groups bound the parallelism.
    KeyGroupLimit (at, to) "{at} key groups keep at most {to} subtasks busy";
    /// Task slots of the workers.
    WorkerSlots (at) "the worker slots that can be had hold {at} tasks and their copies";
    /// Slots that the cluster can schedule.
    SchedulableSlots (at) "{at} slots can be scheduled";
    /// What the job may use in all.
    Quota (at) "the quota allows {at}";
    /// State must fit in memory.
    MemoryFloor (at) "at least {at} are needed to hold the state";
    /// Largest raise in one decision.
    ScaleUpLimit (at) "one decision raises to at most {at}";
    /// Largest cut in one decision.
    ScaleDownLimit (at) "one decision lowers to at least {at}";
    /// A higher wish within the window.
    ScaleDownStabilized (at) "{at} was wanted within the window";
    /// Time after the last change; passes with time.
    Cooldown (seconds) "the last change is too recent: {seconds} are left";
    /// Nothing has been wanted for too short a time to go to zero; passes with time.
    IdleWait (seconds) "zero has to be wanted for longer: {seconds} are left";
    /// The same-peak rule over partitions or key groups.
    EvenDistribution (at, from, to) "{from} becomes {to}, the smallest count with the same or the next lower peak over {at} partitions or key groups";
    /// Something as busy as that is not lowered, or not below what its work needs.
    BusyRatioLimit (share, to) "at {share} busy fewer than {to} could not do the work";
    /// The vertex is excluded.
    ExcludedVertex () "the vertex is excluded";
    /// A period in which nothing is changed; passes with time.
    ExcludedPeriod () "nothing is changed in this period";
    /// The consumer ignores so small a change.
    ConsumerTolerance (share) "the consumer ignores changes within {share}";
    /// Demand has not left the present count's range by enough.
    Hysteresis (share) "demand has not left the range of the present count by {share}";
    /// A lower wish within the window; passes with time.
    ScaleUpStabilized (at) "{at} was wanted within the window";
    /// A vertex inside its own band is not moved because another one is outside.
    InsideOwnBand () "the vertex is inside its own band and stays";
    /// Something is not known or not safe, or will not help: the reasons say what.
    Held (to) "{to} is held: the reasons say why";
    /// One subtask is far busier than the others, and more of them do not relieve it.
    SubtaskSkew (at) "the mean load needs {at}, and more do not relieve the busiest subtask";
    /// A vertex downstream cannot take more.
    DownstreamLimit (at) "{at} are enough for what gets through downstream";
    /// The change costs more than it brings.
    ChangeNotWorthwhile (seconds) "the change is not worth a stop of {seconds}";
    /// The rest of the last `TaskManager` is used, since its slots are paid anyway.
    TaskManagerSlots (at, to) "{to} use up the last TaskManager of {at} slots, which are paid anyway";
}

impl LimitCode {
    /// True for limits that pass with time: they make "no difference" a hold.
    #[must_use]
    pub const fn passes_with_time(self) -> bool {
        matches!(self, Self::ScaleDownStabilized | Self::ScaleUpStabilized | Self::Cooldown | Self::IdleWait | Self::ExcludedPeriod)
    }
}
