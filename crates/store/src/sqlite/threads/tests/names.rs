//! A name belongs to one thread at a time.

use super::*;

fn named(number: u128, name: &str) -> NewThread {
    NewThread {
        name: Some(name.to_owned()),
        ..new_thread(number)
    }
}

fn rename(number: u128, name: &str) -> ThreadChange {
    ThreadChange {
        name: Some(Some(name.to_owned())),
        ..ThreadChange::of(id(number), 2)
    }
}

fn archive(number: u128, archived: bool) -> ThreadChange {
    ThreadChange {
        archived: Some(archived),
        ..ThreadChange::of(id(number), 3)
    }
}

fn holder(refused: Result<impl std::fmt::Debug, StoreError>) -> ThreadId {
    match refused {
        Err(StoreError::NameInUse { thread, .. }) => thread,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_name_is_given_once_among_threads_that_are_not_archived() {
    let fixture = Fixture::new();
    fixture
        .by(Who::Me, |db| create(db, &named(51, "docs")))
        .unwrap();
    assert_eq!(
        holder(fixture.by(Who::Me, |db| create(db, &named(52, "docs")))),
        id(51)
    );
    assert!(
        fixture
            .by(Who::Me, |db| thread(db, id(52)))
            .unwrap()
            .is_none(),
        "nothing was made"
    );
    fixture
        .by(Who::Me, |db| create(db, &named(52, "other")))
        .unwrap();
    assert_eq!(
        holder(fixture.by(Who::Me, |db| change(db, &rename(52, "docs")))),
        id(51)
    );
    fixture
        .by(Who::Me, |db| change(db, &rename(51, "docs")))
        .unwrap();

    // Archiving frees the name, and a thread comes back only while its name is free.
    fixture
        .by(Who::Me, |db| change(db, &archive(51, true)))
        .unwrap();
    fixture
        .by(Who::Me, |db| change(db, &rename(52, "docs")))
        .unwrap();
    assert_eq!(
        holder(fixture.by(Who::Me, |db| change(db, &archive(51, false)))),
        id(52)
    );
    fixture
        .by(Who::Me, |db| change(db, &rename(51, "former")))
        .unwrap();
    fixture
        .by(Who::Me, |db| change(db, &archive(51, false)))
        .unwrap();
}

#[test]
fn threads_that_shared_a_name_before_can_be_used_and_changed() {
    let fixture = Fixture::new();
    fixture
        .by(Who::Me, |db| create(db, &named(51, "docs")))
        .unwrap();
    fixture
        .by(Who::Me, |db| create(db, &named(52, "other")))
        .unwrap();
    let sql = "UPDATE thread SET name = 'docs' WHERE id = ?1";
    let doubled = [id::<ThreadId>(52)];
    fixture.connection.execute(sql, doubled).unwrap();
    let settings = ThreadChange {
        settings: Some(json("new")),
        ..ThreadChange::of(id(52), 4)
    };
    fixture.by(Who::Me, |db| change(db, &settings)).unwrap();
    fixture
        .by(Who::Me, |db| change(db, &rename(52, "docs")))
        .unwrap();
    assert_eq!(
        holder(fixture.by(Who::Me, |db| create(db, &named(53, "docs")))),
        id(51)
    );
    fixture
        .by(Who::Me, |db| change(db, &rename(52, "free")))
        .unwrap();
}
