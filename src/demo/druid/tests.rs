//! The model over whole days, in milliseconds.

use super::*;

fn cluster() -> Cluster {
    Cluster::new(Pace::default())
}

fn running(cluster: &Cluster) -> usize {
    cluster.pods.iter().map(|pod| pod.tasks.len()).sum()
}

#[test]
fn no_task_is_lost_over_two_days_whatever_the_count_does() {
    let mut cluster = cluster();
    for second in 1..1440_u32 {
        cluster.advance(f64::from(second));
        if second % 40 == 0 {
            cluster.set_replicas(1 + second as usize / 40 % 8);
        }
        let tally = cluster.tally;
        assert_eq!(tally.submitted, cluster.pending.len() + running(&cluster) + tally.completed + tally.killed, "at {second} s");
        assert!(cluster.pods.iter().all(|pod| pod.tasks.len() <= CAPACITY), "at {second} s");
    }
    assert!(cluster.tally.killed > 0 && cluster.tally.completed > 500, "{:?}", cluster.tally);
}

#[test]
fn streams_need_twice_their_slots_while_they_hand_over() {
    let mut cluster = cluster();
    cluster.set_replicas(8);
    let streams = |cluster: &Cluster| cluster.pods.iter().flat_map(|pod| &pod.tasks).filter(|task| matches!(task.work, Work::Stream { .. })).count();
    cluster.advance(20.0);
    assert_eq!(streams(&cluster), 4);
    cluster.advance(32.5);
    assert_eq!(streams(&cluster), 8);
    cluster.advance(40.0);
    assert_eq!(streams(&cluster), 4);
}

#[test]
fn a_new_pod_gets_no_task_before_it_has_booted() {
    let mut cluster = cluster();
    cluster.advance(1.0);
    cluster.set_replicas(3);
    for _ in 0..12 {
        cluster.submit(Work::Batch, HOUR);
    }
    cluster.advance(6.5);
    assert_eq!((cluster.pods[2].tasks.len(), running(&cluster)), (0, 8));
    cluster.advance(7.5);
    assert_eq!(cluster.pods[2].tasks.len(), CAPACITY);
}

#[test]
fn a_disabled_worker_empties_and_the_fullest_worker_is_filled_first() {
    let mut cluster = cluster();
    cluster.advance(5.0);
    assert!(cluster.enable(&host_of(1), false));
    assert!(!cluster.enable("nowhere:8091", false));
    cluster.set_replicas(4);
    cluster.advance(120.0);
    assert_eq!(cluster.pods[1].tasks.len(), 0);
    assert!(cluster.pods[0].tasks.len() >= cluster.pods[3].tasks.len());
}

#[test]
fn orders_lower_the_count_only_when_no_pod_is_booting() {
    let mut cluster = cluster();
    cluster.advance(5.0);
    cluster.obey(&Orders { recommended: Some(4), ..Orders::default() });
    cluster.obey(&Orders { recommended: Some(3), ..Orders::default() });
    assert_eq!(cluster.pods.len(), 4);
    cluster.advance(12.0);
    cluster.obey(&Orders { recommended: Some(3), disable: vec![host_of(2)], ..Orders::default() });
    assert_eq!(cluster.pods.len(), 3);
    assert!(!cluster.pods[2].enabled);
}

#[test]
fn the_day_wants_two_workers_at_dawn_and_most_of_the_eight_in_the_evening() {
    let mut cluster = cluster();
    cluster.set_replicas(8);
    let mut busiest = 0;
    let mut dawn = 0;
    for second in 1..720_u32 {
        cluster.advance(f64::from(second));
        busiest = busiest.max(running(&cluster));
        if (10..28).contains(&second) {
            dawn = dawn.max(running(&cluster));
        }
    }
    assert!(dawn <= 2 * CAPACITY + 2, "{dawn} slots at dawn");
    assert!((20..=32).contains(&busiest), "{busiest} slots at the peak");
    assert!(cluster.pending.len() <= 4);
}

#[test]
fn under_a_plain_rule_that_drains_before_it_removes_the_day_breathes_and_nothing_is_killed() {
    let mut cluster = cluster();
    let (mut fewest, mut most, mut waiting) = (usize::MAX, 0, 0);
    for beat in 1..360_u32 {
        cluster.advance(f64::from(beat) * 2.0);
        let demand = running(&cluster) + cluster.pending.len();
        waiting = waiting.max(cluster.pending.len());
        let wanted = (demand + 1).div_ceil(CAPACITY);
        let count = cluster.pods.len();
        let mut orders = Orders { recommended: Some(wanted.max(count) as u64), ..Orders::default() };
        let last = &cluster.pods[count - 1];
        if wanted < count && last.is_registered(cluster.time) {
            if last.enabled {
                orders.disable.push(host_of(count - 1));
            } else if last.tasks.is_empty() {
                orders.recommended = Some(count as u64 - 1);
            }
        } else if wanted >= count {
            orders.enable = (0..count).map(host_of).collect();
        }
        cluster.obey(&orders);
        if beat > 20 {
            fewest = fewest.min(cluster.pods.len());
            most = most.max(cluster.pods.len());
        }
    }
    assert_eq!(cluster.tally.killed, 0);
    assert!(fewest <= 3 && most >= 6, "{fewest} to {most} pods");
    assert!(waiting <= 16, "{waiting} tasks waited");
}
