//! A script: what the world is, then what is done to it and what must be so, one statement a line.
//!
//! ```text
//! seed 7                            regions east west          setting NAME VALUE
//! fifo                              no_stream                  no_schedules
//!
//! run 10s                           run_until 60s              await EXPECTATION within 20s
//! publish DEVICE [COUNT] [through INSTANCE] [again_after TIME]…
//! fault INSTANCE CALL [number N] FAULT [TIME | rows N…] [times N]
//! kill east                         at 60s kill east           … every act of the simulator by its name
//! expect EXPECTATION                # a remark
//! ```

use std::time::Duration;

use fencepost_tests::simulation::{Act, Message, Options};

use super::act;
use super::expectation::{self, Expectation};
use super::fault::{self, Placed};
use super::words::Words;

/// A script, understood.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// What the world is.
    pub(crate) options: Options,
    /// What happens, in order.
    pub(crate) steps: Vec<Step>,
}

/// A statement that does something.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Its line in the file.
    pub(crate) line: usize,
    /// As it stands there.
    pub(crate) text: String,
    /// What it does.
    pub(crate) what: What,
}

/// What a statement does.
#[derive(Debug, Clone)]
pub(crate) enum What {
    /// Time passes.
    Run(Duration),
    /// Time passes up to a moment of the run.
    RunUntil(Duration),
    /// Time passes until it is so, for so long at most.
    Await(Expectation, Duration),
    /// It must be so.
    Expect(Expectation),
    /// Calls meet a fault.
    Fault(Placed),
    /// Something is done, now or at a moment of the run.
    Do(Option<Duration>, Deed),
}

/// Something that can also be done later.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    /// An act.
    Act(Act),
    /// Messages are published.
    Publish(Vec<Message>),
}

/// Reads numbered lines. A fault begins with its line's number.
pub(crate) fn parse(lines: &[(usize, String)]) -> Result<Script, String> {
    let mut reader = Reader { regions: Vec::new(), options: Options::new(7), published: 0, steps: Vec::new() };
    reader.set_regions(vec!["east".to_owned(), "west".to_owned()]);
    for (number, line) in lines {
        let text = line.trim();
        if !text.is_empty() && !text.starts_with('#') {
            reader.statement(*number, text).map_err(|fault| format!("{number}: {fault}"))?;
        }
    }
    if reader.steps.iter().all(|step| !matches!(step.what, What::Expect(_))) {
        let last = lines.last().map_or(1, |(number, _)| *number);
        return Err(format!("{last}: a script without `expect` shows nothing"));
    }
    Ok(Script { options: reader.options, steps: reader.steps })
}

struct Reader {
    regions: Vec<String>,
    options: Options,
    /// Messages that are published so far: each has a payload of its own.
    published: usize,
    steps: Vec<Step>,
}

impl Reader {
    fn set_regions(&mut self, names: Vec<String>) {
        self.options = self.options.clone().regions(names.iter().map(String::as_str));
        self.regions = names;
    }

    fn statement(&mut self, line: usize, text: &str) -> Result<(), String> {
        let regions = self.regions.clone();
        let mut words = Words::of(text, &regions);
        let first = words.word("a statement")?;
        if self.option(first, &mut words)? {
            return if self.steps.is_empty() {
                words.end()
            } else {
                Err(format!("`{first}` says what the world is: it stands before everything that happens"))
            };
        }
        let what = self.step(first, &mut words)?;
        words.end()?;
        self.steps.push(Step { line, text: text.to_owned(), what });
        Ok(())
    }

    /// Takes what the world is; `false` where the word says no such thing.
    fn option(&mut self, first: &str, words: &mut Words<'_>) -> Result<bool, String> {
        let options = self.options.clone();
        match first {
            "seed" => {
                // The seed is the constructor's: it comes first.
                let names = self.regions.clone();
                self.options = Options::new(words.number("the seed")?);
                self.set_regions(names);
            }
            "regions" => {
                let names: Vec<String> = words.all().into_iter().map(str::to_owned).collect();
                if names.is_empty() {
                    return Err("a world has at least one region".to_owned());
                }
                self.set_regions(names);
            }
            "setting" => self.options = options.setting(words.word("a setting")?, words.word("its value")?),
            "fifo" => self.options = options.fifo(),
            "no_stream" => self.options = options.without_stream(),
            "no_schedules" => self.options = options.without_schedules(),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn step(&mut self, first: &str, words: &mut Words<'_>) -> Result<What, String> {
        match first {
            "run" => Ok(What::Run(words.duration("for how long")?)),
            "run_until" => Ok(What::RunUntil(words.duration("a moment of the run")?)),
            "await" => {
                let expectation = expectation::parse(words)?;
                if !words.takes("within") {
                    return Err("say for how long at most: `within 20s`".to_owned());
                }
                Ok(What::Await(expectation, words.duration("for how long")?))
            }
            "expect" => expectation::parse(words).map(What::Expect),
            "fault" => fault::parse(words).map(What::Fault),
            "at" => {
                let moment = words.duration("a moment of the run")?;
                let first = words.word("what happens then")?;
                Ok(What::Do(Some(moment), self.deed(first, words)?))
            }
            _ => Ok(What::Do(None, self.deed(first, words)?)),
        }
    }

    fn deed(&mut self, first: &str, words: &mut Words<'_>) -> Result<Deed, String> {
        if first == "publish" {
            return self.publish(words).map(Deed::Publish);
        }
        let act = act::parse(first, words)?;
        act.map(Deed::Act).ok_or_else(|| {
            format!("there is no statement `{first}`; tests/tests/transcripts/script.rs and act.rs name all of them")
        })
    }

    fn publish(&mut self, words: &mut Words<'_>) -> Result<Vec<Message>, String> {
        let device = words.word("a device")?;
        let count: usize = words.maybe_number().unwrap_or(1);
        let through = if words.takes("through") { Some(words.instance()?) } else { None };
        let mut again = Vec::new();
        while words.takes("again_after") {
            again.push(words.duration("how long after")?);
        }
        let mut messages = Vec::new();
        for _ in 0..count {
            self.published += 1;
            let mut message = Message::new(device, format!("reading {}", self.published));
            if let Some(instance) = &through {
                message = message.through(instance);
            }
            messages.push(again.iter().fold(message, |message, pause| message.delivered_again_after(*pause)));
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Script, String> {
        let lines: Vec<(usize, String)> = (11..).zip(text.lines().map(str::to_owned)).collect();
        parse(&lines)
    }

    #[test]
    fn remarks_and_empty_lines_say_nothing() {
        let script = read("# a remark\n\nregions north\nrun 1s\n  expect leader north\n").unwrap();
        let texts: Vec<(usize, &str)> = script.steps.iter().map(|step| (step.line, step.text.as_str())).collect();
        assert_eq!(texts, [(14, "run 1s"), (15, "expect leader north")]);
    }

    #[test]
    fn faults_are_told_with_their_line() {
        let fault = |text: &str| read(text).unwrap_err();
        assert!(fault("run 1s\nexpect leader north").starts_with("12: there is no instance `north`"));
        assert!(fault("run 1\nexpect dead 0").starts_with("11: `1` is no time"));
        assert!(fault("run 1s\nfifo").starts_with("12: `fifo` says what the world is"));
        assert!(fault("run 1s").starts_with("11: a script without `expect`"));
        assert!(fault("jump 1s").starts_with("11: there is no statement `jump`"));
        assert!(fault("kill east now").starts_with("11: `now` is one word too many"));
        assert!(fault("await dead 0").starts_with("11: say for how long"));
        assert!(fault("expect metric Nonsense 1").starts_with("11: there is no metric"));
        assert!(fault("expect reached nonsense").starts_with("11: `nonsense` is none of"));
        assert!(fault("expect silence").starts_with("11: nothing is called `silence`"));
    }
}
