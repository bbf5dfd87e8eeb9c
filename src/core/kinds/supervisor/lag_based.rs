//! Druid's own `lagBased` autoscaler: fixed steps at thresholds of the lag, as the preset `druid-lag-based`.
//!
//! ```text
//! lag >= scaleOutThreshold in at least triggerScaleOutFractionThreshold of the readings: current + scaleOutStep
//! else lag <= scaleInThreshold in at least triggerScaleInFractionThreshold of them:     current - scaleInStep
//! ```
//!
//! What is added is only what unknown means: a negative lag is no zero, a window that is not full decides nothing, and
//! no cut leads to a predicted busy share above 1. Source: Druid, `LagBasedAutoScaler`.

use super::lag::Lag;
use super::window::Window;
use crate::core::decide::Judged;
use crate::core::policy::LagBased;
use crate::core::reasons::{Num, Reason, Share};
use crate::core::units::{Count, as_f64};

/// The wish by thresholds.
pub fn wish(rule: &LagBased, window: &Window<'_>, judged: &mut Judged) {
    let current = judged.current.unwrap_or(0);
    let lags: Vec<f64> = window.readings().filter_map(|(_, reading)| Some(Lag::of(reading).ok().flatten()?.combined(rule.aggregate))).collect();
    let readings = lags.len() as Count;
    if readings == 0 {
        return;
    }
    let share = |speaks: &dyn Fn(f64) -> bool| as_f64(lags.iter().filter(|lag| speaks(**lag)).count() as Count) / as_f64(readings);
    let above = share(&|lag| lag >= rule.scale_out_threshold);
    let below = share(&|lag| lag <= rule.scale_in_threshold);
    let (wish, reason) = if above + 1e-9 >= rule.scale_out_fraction {
        let stepped = current.saturating_add(rule.scale_out_step);
        let wish = judged.partitions.filter(|_| rule.nearest_factor).map_or(stepped, |partitions| next_factor(partitions, stepped));
        let (share, threshold) = (Share(above), Num(rule.scale_out_threshold));
        (wish, Reason::LagAboveThreshold { readings, share, threshold, needed: wish })
    } else if below + 1e-9 >= rule.scale_in_fraction {
        let wish = current.saturating_sub(rule.scale_in_step);
        (wish, Reason::LagBelowThreshold { readings, share: Share(below), threshold: Num(rule.scale_in_threshold), needed: wish })
    } else {
        (current, Reason::LagBetweenThresholds { readings, above: Share(above), below: Share(below) })
    };
    judged.wish = Some(as_f64(wish));
    judged.why.push(reason);
    judged.past = Vec::new();
    // both directions wait for the whole window, as Druid's own does after each change
    if let Some(reason) = judged.no_lower.iter().find(|reason| matches!(reason, Reason::WindowNotFull { .. })).cloned() {
        judged.no_raise.push(reason);
    }
}

/// The next divisor of the number of partitions from `count` upwards; `count` where there is none.
fn next_factor(partitions: Count, count: Count) -> Count {
    (count.max(1)..=partitions).find(|factor| partitions.is_multiple_of(*factor)).unwrap_or(count)
}
