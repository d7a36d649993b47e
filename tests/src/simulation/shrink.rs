//! From the faults that a failing run met to a few of them that still make it fail.

use super::fault::Fault;
use super::run::{Report, run};

/// Takes faults away, half of them first, single ones last, as long as `seed` still breaks the rule that it broke; at most
/// `runs_max` runs. Gives what is left and the run that it makes. `progress` hears how many are left.
#[must_use]
pub fn shrink(failed: Report, runs_max: usize, mut progress: impl FnMut(usize)) -> (Vec<Fault>, Report) {
    let seed = failed.seed;
    let rule = failed.first_broken().map(|broken| broken.rule.clone());
    let (mut faults, mut best) = (failed.met.clone(), failed);
    let mut runs = 0;
    let mut width = faults.len().div_ceil(2).max(1);
    loop {
        let mut from = 0;
        let mut smaller = false;
        while from < faults.len() && runs < runs_max {
            let to = (from + width).min(faults.len());
            let fewer: Vec<Fault> = faults[..from].iter().chain(&faults[to..]).cloned().collect();
            runs += 1;
            let report = run(seed, Some(&fewer));
            if report.first_broken().is_some_and(|broken| Some(&broken.rule) == rule.as_ref()) {
                (faults, best, smaller) = (fewer, report, true);
                progress(faults.len());
            } else {
                from = to;
            }
        }
        if runs >= runs_max || (width == 1 && !smaller) || faults.is_empty() {
            return (faults, best);
        }
        if width > 1 {
            width = width.div_ceil(2);
        }
    }
}
