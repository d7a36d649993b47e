mod history;
mod rule;
