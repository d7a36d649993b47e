//! New rows: each where its key is absent, exact to the byte.

use fencepost_protocol::drain::Redrive;
use fencepost_protocol::failure::FailureKind;
use fencepost_protocol::limits::{IOT_PAYLOAD_BYTES_MAX, ITEM_BYTES_MAX};
use fencepost_protocol::outbox::{OutboxRow, Slot};

use super::expect::{Outcome, answered, damaged, equal, fails, holds};
use super::sample::World;
use super::{TablesCase, cases};
use crate::item::Value;
use crate::ports::PutAnswer;
use crate::records::{Table, outstanding};

pub(super) const CASES: [TablesCase; 9] = cases![TablesCase:
    a_row_comes_back_exactly,
    every_kind_of_payload_comes_back_exactly,
    every_kind_of_text_comes_back_exactly,
    a_taken_key_shows_what_stands_there,
    a_damaged_row_is_shown_and_stays,
    many_rows_are_answered_in_order,
    of_two_with_one_key_the_second_finds_the_first,
    a_row_over_the_tables_limit_is_invalid_alone,
    no_rows_are_no_calls,
];

async fn a_row_comes_back_exactly(world: &World) -> Outcome {
    let row = world.row(1)?;
    world.is_gone(&row).await?;
    world.store(&row).await?;
    world.stands(&row).await?;
    let claimed = world.take(&row, "c1", 1).await?;
    world.stands(&claimed).await
}

async fn every_kind_of_payload_comes_back_exactly(world: &World) -> Outcome {
    let payloads = [
        Vec::new(),
        vec![0],
        vec![0x00, 0xFF],
        (0..=255).collect(),
        b"aGVsbG8gd29ybGQ=".to_vec(),
        br#"{"a":"\u0000","b":1.0}"#.to_vec(),
        "\u{feff}Grüße \u{1F980}\r\n\t".as_bytes().to_vec(),
        vec![b' '; 3],
        (0..IOT_PAYLOAD_BYTES_MAX).map(|at| u8::try_from(at % 251).unwrap_or(0)).collect(),
    ];
    let mut rows = Vec::new();
    for (n, payload) in (0..).zip(payloads) {
        rows.push(OutboxRow { payload, ..world.row(n)? });
    }
    for (index, row) in rows.iter().enumerate() {
        if index % 2 == 0 {
            world.store(row).await?;
        } else {
            let put = answered(world.outbox().put_many(std::slice::from_ref(row)).await)?;
            equal("put of many", &put, &vec![PutAnswer::Stored])?;
        }
        world.stands(row).await?;
    }
    equal("the shard", &world.walk(&world.shard(0)?, 100).await?, &rows)
}

async fn every_kind_of_text_comes_back_exactly(world: &World) -> Outcome {
    let texts = [
        "",
        " ",
        "$aws/things/x",
        "a/+/#",
        "quote ' \" ` \\ end",
        "\u{0}\u{1}\u{7f}",
        "ключ/鍵/\u{1F511}",
        "1e3",
        "null",
    ];
    for (n, text) in (0..).zip(texts) {
        let row = OutboxRow {
            topic: text.to_owned(),
            client_id: Some(text.to_owned()),
            device_message_id: Some(text.to_owned()),
            ..world.row(n)?
        };
        let put = answered(world.outbox().put_many(std::slice::from_ref(&row)).await)?;
        equal("put of many", &put, &vec![PutAnswer::Stored])?;
        world.stands(&row).await?;
        let other = OutboxRow { key: world.row(n + 1_000)?.key, client_id: None, ..row };
        world.store(&other).await?;
        world.stands(&other).await?;
    }
    Ok(())
}

async fn a_taken_key_shows_what_stands_there(world: &World) -> Outcome {
    let row = world.claimed(1, "c1", 3).await?;
    let exists = PutAnswer::Exists(Slot::Present(row.clone()));
    let again = world.row(1)?;
    let other = OutboxRow { payload: b"another".to_vec(), ..again.clone() };
    for put in [&again, &other] {
        equal("put", &world.outbox().put(put).await?, &exists)?;
        let many = answered(world.outbox().put_many(std::slice::from_ref(put)).await)?;
        equal("put of many", &many, &vec![exists.clone()])?;
    }
    let redrive = Redrive { row: OutboxRow { redriven: 1, ..again }, dead_redriven: 0 };
    equal("put of a redriven row", &world.outbox().put_redriven(&redrive).await?, &exists)?;
    world.stands(&row).await
}

async fn a_damaged_row_is_shown_and_stays(world: &World) -> Outcome {
    let row = world.row(1)?;
    world.plant_damaged(Table::Outbox, world.item(1)?, outstanding::PAYLOAD, Value::text("text")).await?;
    damaged("the row", &world.outbox().row(&row.key).await?, outstanding::PAYLOAD)?;
    let mut answers = answered(world.outbox().put_many(std::slice::from_ref(&row)).await)?;
    answers.push(world.outbox().put(&row).await?);
    for answer in answers {
        match answer {
            PutAnswer::Exists(slot) => damaged("a put", &slot, outstanding::PAYLOAD)?,
            PutAnswer::Stored => holds(false, "a damaged row was overwritten")?,
        }
    }
    damaged("the row afterwards", &world.outbox().row(&row.key).await?, outstanding::PAYLOAD)
}

async fn many_rows_are_answered_in_order(world: &World) -> Outcome {
    let rows = world.rows(0..60)?;
    for n in [0, 24, 25, 59] {
        world.stored(n).await?;
    }
    world.plant(Table::Outbox, world.wreck(&outstanding::key(&world.row(30)?.key))).await?;
    let answers = answered(world.outbox().put_many(&rows).await)?;
    equal("the number of answers", &answers.len(), &rows.len())?;
    for (n, (row, answer)) in rows.iter().zip(&answers).enumerate() {
        let what = format!("answer {n}");
        match n {
            0 | 24 | 25 | 59 => equal(&what, answer, &PutAnswer::Exists(Slot::Present(row.clone())))?,
            30 => holds(matches!(answer, PutAnswer::Exists(Slot::Damaged(_))), format!("{what}: {answer:?}"))?,
            _ => equal(&what, answer, &PutAnswer::Stored)?,
        }
        if n != 30 {
            world.stands(row).await?;
        }
    }
    Ok(())
}

async fn of_two_with_one_key_the_second_finds_the_first(world: &World) -> Outcome {
    let first = world.row(1)?;
    let second = OutboxRow { payload: b"another".to_vec(), ..first.clone() };
    let between = world.row(2)?;
    let answers = answered(world.outbox().put_many(&[first.clone(), between, second]).await)?;
    let exists = PutAnswer::Exists(Slot::Present(first.clone()));
    equal("the answers", &answers, &vec![PutAnswer::Stored, PutAnswer::Stored, exists])?;
    world.stands(&first).await
}

async fn a_row_over_the_tables_limit_is_invalid_alone(world: &World) -> Outcome {
    let large = OutboxRow { payload: vec![1; ITEM_BYTES_MAX + 1], ..world.row(1)? };
    fails("put", &world.outbox().put(&large).await, FailureKind::Invalid)?;
    let neighbours = [world.row(0)?, world.row(2)?];
    let [first, second] = neighbours.clone();
    let answers = world.outbox().put_many(&[first, large.clone(), second]).await;
    equal("the number of answers", &answers.len(), &3)?;
    fails("put of many", &answers[1], FailureKind::Invalid)?;
    for row in &neighbours {
        world.stands(row).await?;
    }
    world.is_gone(&large).await
}

async fn no_rows_are_no_calls(world: &World) -> Outcome {
    let outbox = world.outbox();
    holds(outbox.put_many(&[]).await.is_empty(), "put_many of nothing answers something")?;
    holds(outbox.claim(&[]).await.is_empty(), "claim of nothing answers something")?;
    holds(outbox.hand_back(&[]).await.is_empty(), "hand_back of nothing answers something")?;
    holds(outbox.commit(&[]).await.is_empty(), "commit of nothing answers something")?;
    holds(outbox.write_tombstones(&[]).await.is_empty(), "write_tombstones of nothing answers something")?;
    holds(outbox.tombstones(&[]).await?.is_empty(), "tombstones of nothing answers something")
}
