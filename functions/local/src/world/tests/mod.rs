mod history;
mod intake;
mod rule;
