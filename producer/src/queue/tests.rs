use super::*;

#[test]
fn a_name_is_what_a_kafka_topic_may_be_called() {
    for text in ["a", "billing-jobs", "A.b_c-9", "...", &"q".repeat(200)] {
        assert_eq!(text.parse::<QueueName>().unwrap().as_str(), text);
        assert_eq!(text.parse::<GroupName>().unwrap().as_str(), text);
    }
    for text in ["", ".", "..", "a b", "a/b", "é", "a\n", &"q".repeat(201)] {
        assert!(matches!(text.parse::<QueueName>(), Err(Error::Invalid(_))), "{text:?}");
    }
}

#[test]
fn a_partition_count_is_1_to_4096() {
    assert_eq!("1".parse::<PartitionCount>().unwrap().0.get(), 1);
    assert_eq!("4096".parse::<PartitionCount>().unwrap().0.get(), MAX_PARTITIONS);
    for text in ["", "0", "4097", "-1", "12.5", "twelve", "99999999999"] {
        assert!(matches!(text.parse::<PartitionCount>(), Err(Error::Invalid(_))), "{text:?}");
    }
    let too_many = PartitionCount(NonZeroU32::new(MAX_PARTITIONS + 1).unwrap());
    assert!(matches!(too_many.check(), Err(Error::Invalid(_))));
}

#[test]
fn an_error_lists_queues_up_to_a_bound() {
    let names: Vec<QueueName> = (0..52).map(|n| format!("q{n:02}").parse().unwrap()).collect();
    let error = not_there(&"other".parse().unwrap(), &names);
    let remedy = error.detail().remedy_text().unwrap();
    assert!(remedy.contains("q00, q01") && remedy.ends_with("q49, and 2 more"), "{remedy}");
    let none = not_there(&"other".parse().unwrap(), &[]);
    assert!(none.detail().remedy_text().unwrap().contains("keylane queue create"));
}
