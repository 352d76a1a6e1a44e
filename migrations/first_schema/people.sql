-- Tenants, and the people who write.

CREATE TABLE tenants (
    tenant_id text PRIMARY KEY CHECK (tenant_id <> ''),
    settings jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now()
);

-- A sender that is linked to nobody is a user of its own, by its own id.
CREATE TABLE users (
    tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
    user_id text NOT NULL CHECK (user_id <> ''),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, user_id)
);

-- Senders, and users that were merged into others; a `user_id` is never linked itself.
CREATE TABLE user_senders (
    tenant_id text NOT NULL,
    sender_id text NOT NULL CHECK (sender_id <> ''),
    user_id text NOT NULL CHECK (user_id <> sender_id),
    linked_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, sender_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users ON DELETE CASCADE
);
CREATE INDEX user_senders_user ON user_senders (tenant_id, user_id);
