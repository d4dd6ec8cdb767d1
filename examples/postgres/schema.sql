-- The tables of the examples. No constraint here keeps a stale or repeated write out: the fence does.
CREATE TABLE payment (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job    text    NOT NULL,
    account text   NOT NULL,
    amount numeric NOT NULL
);
