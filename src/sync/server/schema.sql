-- The meeting place of a team's devices: one append-only log of records per device. Run once by `claude-mem sync init`.
--
-- Identity is session_user, the login that authenticated: unlike current_user it stays the caller's inside a SECURITY DEFINER
-- function, and unlike a setting no client can choose it. Clients may insert records and read; everything else goes through the
-- functions below.

CREATE SCHEMA claude_mem;

CREATE TABLE claude_mem.version (version int NOT NULL);
INSERT INTO claude_mem.version VALUES (1);

CREATE TABLE claude_mem.team (
  id         uuid PRIMARY KEY,
  name       text NOT NULL,
  -- False: bodies are readable JSON, which the team chose when it was created.
  sealed     boolean NOT NULL,
  -- An HMAC under the team's first key: a device with another key is refused before it writes anything.
  key_check  bytea NOT NULL,
  -- The key that new records are sealed with: its number, and the same proof of it.
  epoch      int NOT NULL DEFAULT 1,
  epoch_check bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE claude_mem.member (
  team       uuid NOT NULL REFERENCES claude_mem.team,
  login      name NOT NULL,
  role       text NOT NULL CHECK (role IN ('owner', 'write', 'read')),
  -- The same for the key of what the member keeps to their own devices.
  key_check  bytea NOT NULL,
  -- Receives new keys of the team; the proof, under the team's key, shows that a member made it.
  public_key bytea NOT NULL,
  proof      bytea NOT NULL,
  removed_at timestamptz,
  PRIMARY KEY (team, login)
);

-- The team's keys after the first one, each sealed for the members of its time.
CREATE TABLE claude_mem.team_key (
  team    uuid NOT NULL REFERENCES claude_mem.team,
  epoch   int NOT NULL,
  login   name NOT NULL,
  sender  name NOT NULL,
  wrapped bytea NOT NULL,
  PRIMARY KEY (team, epoch, login)
);

CREATE TABLE claude_mem.device (
  id      uuid PRIMARY KEY,
  team    uuid NOT NULL REFERENCES claude_mem.team,
  login   name NOT NULL,
  label   text NOT NULL,
  made_at timestamptz NOT NULL DEFAULT now(),
  seen_at timestamptz NOT NULL DEFAULT now(),
  gone_at timestamptz
);
CREATE INDEX device_by_team ON claude_mem.device (team);
CREATE INDEX device_by_login ON claude_mem.device (login);

CREATE TABLE claude_mem.invitation (
  -- SHA-256 of the secret in the invitation.
  token      bytea PRIMARY KEY,
  team       uuid NOT NULL REFERENCES claude_mem.team,
  -- The inviting login; without a role the invitation is for its own further machines.
  login      name NOT NULL,
  role       text CHECK (role IN ('write', 'read')),
  expires_at timestamptz NOT NULL,
  used_at    timestamptz
);

CREATE TABLE claude_mem.record (
  team    uuid NOT NULL,
  device  uuid NOT NULL,
  -- Dense per device: 1, 2, 3, …
  seq     bigint NOT NULL CHECK (seq > 0),
  id      uuid NOT NULL,
  kind    smallint NOT NULL,
  -- An HMAC of the project's key, or the key itself in a team with readable bodies.
  project bytea NOT NULL CHECK (octet_length(project) <= 512),
  hlc     bigint NOT NULL,
  -- The key epoch that sealed the body; 0: readable.
  epoch   int NOT NULL,
  -- False: for the devices of the same login only.
  shared  boolean NOT NULL,
  -- The memory that the record is about, as a hash: purging needs to find its bodies.
  refers  uuid NOT NULL,
  body    bytea NOT NULL CHECK (octet_length(body) <= 65536),
  recv_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (team, device, seq)
) PARTITION BY HASH (team);

DO $$ BEGIN
  FOR part IN 0..7 LOOP
    EXECUTE format('CREATE TABLE claude_mem.record_%s PARTITION OF claude_mem.record FOR VALUES WITH (MODULUS 8, REMAINDER %s)', part, part);
    -- Reached through the parent only: without a policy of its own a partition shows nothing.
    EXECUTE format('ALTER TABLE claude_mem.record_%s ENABLE ROW LEVEL SECURITY', part);
    EXECUTE format('ALTER TABLE claude_mem.record_%s FORCE ROW LEVEL SECURITY', part);
  END LOOP;
END $$;
-- Purpose: the bodies of a forgotten memory without a scan.
CREATE INDEX record_by_refers ON claude_mem.record (team, refers);

-- The newest record of each device: a poll reads one row per device.
CREATE TABLE claude_mem.head (
  team   uuid NOT NULL,
  device uuid NOT NULL,
  seq    bigint NOT NULL,
  id     uuid NOT NULL,
  at     timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (team, device)
) WITH (fillfactor = 50);

-- Keys of sealed bodies, one per project and epoch, themselves sealed under the team's key or the login's. Deleting one makes
-- the project's bodies unreadable, also in copies of the records.
CREATE TABLE claude_mem.project_key (
  team    uuid NOT NULL,
  -- Empty: the team's.
  login   name NOT NULL,
  project bytea NOT NULL,
  epoch   int NOT NULL,
  -- Every body names the key that sealed it.
  id      uuid NOT NULL UNIQUE,
  wrapped bytea NOT NULL,
  PRIMARY KEY (team, login, project, epoch)
);

-- Who is asking. These run as the owner, whom no policy on these tables binds; they answer about session_user alone.

CREATE FUNCTION claude_mem.my_teams() RETURNS SETOF uuid
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ SELECT team FROM member WHERE login = session_user AND removed_at IS NULL $$;

CREATE FUNCTION claude_mem.my_writable_teams() RETURNS SETOF uuid
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ SELECT team FROM member WHERE login = session_user AND removed_at IS NULL AND role <> 'read' $$;

CREATE FUNCTION claude_mem.my_devices() RETURNS TABLE (team uuid, device uuid)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ SELECT team, id FROM device WHERE login = session_user $$;

CREATE FUNCTION claude_mem.my_writable_devices() RETURNS TABLE (team uuid, device uuid)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ SELECT d.team, d.id FROM device d JOIN member m ON m.team = d.team AND m.login = d.login
        WHERE d.login = session_user AND d.gone_at IS NULL AND m.removed_at IS NULL AND m.role <> 'read' $$;

CREATE FUNCTION claude_mem.demand(team uuid, roles text[]) RETURNS void
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ BEGIN
    IF NOT EXISTS (SELECT FROM member m WHERE m.team = demand.team AND m.login = session_user AND m.removed_at IS NULL
                   AND m.role = ANY (roles)) THEN
      RAISE EXCEPTION 'login % may not do this in this team', session_user USING ERRCODE = 'MEM02';
    END IF;
  END $$;

-- Row-level security: FORCE binds the owner of the tables, too.

ALTER TABLE claude_mem.record ENABLE ROW LEVEL SECURITY;
ALTER TABLE claude_mem.record FORCE ROW LEVEL SECURITY;
ALTER TABLE claude_mem.head ENABLE ROW LEVEL SECURITY;
ALTER TABLE claude_mem.head FORCE ROW LEVEL SECURITY;
ALTER TABLE claude_mem.project_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE claude_mem.project_key FORCE ROW LEVEL SECURITY;
ALTER TABLE claude_mem.team ENABLE ROW LEVEL SECURITY;
ALTER TABLE claude_mem.member ENABLE ROW LEVEL SECURITY;
ALTER TABLE claude_mem.device ENABLE ROW LEVEL SECURITY;
ALTER TABLE claude_mem.invitation ENABLE ROW LEVEL SECURITY;
ALTER TABLE claude_mem.team_key ENABLE ROW LEVEL SECURITY;

CREATE POLICY record_read ON claude_mem.record FOR SELECT USING (
  team IN (SELECT claude_mem.my_teams())
  AND (shared OR (team, device) IN (SELECT d.team, d.device FROM claude_mem.my_devices() d)));
CREATE POLICY record_add ON claude_mem.record FOR INSERT WITH CHECK (
  (team, device) IN (SELECT d.team, d.device FROM claude_mem.my_writable_devices() d));
-- Used by forget() alone: no client has the right to UPDATE.
CREATE POLICY record_forget ON claude_mem.record FOR UPDATE USING (team IN (SELECT claude_mem.my_writable_teams()));
CREATE POLICY head_read ON claude_mem.head FOR SELECT USING (team IN (SELECT claude_mem.my_teams()));
CREATE POLICY head_add ON claude_mem.head FOR INSERT WITH CHECK (team IN (SELECT claude_mem.my_writable_teams()));
CREATE POLICY head_move ON claude_mem.head FOR UPDATE USING (team IN (SELECT claude_mem.my_writable_teams()));
CREATE POLICY key_read ON claude_mem.project_key FOR SELECT USING (
  team IN (SELECT claude_mem.my_teams()) AND login IN ('', session_user));
CREATE POLICY key_add ON claude_mem.project_key FOR INSERT WITH CHECK (
  team IN (SELECT claude_mem.my_writable_teams()) AND login IN ('', session_user));
CREATE POLICY key_destroy ON claude_mem.project_key FOR DELETE USING (
  team IN (SELECT claude_mem.my_writable_teams()) AND login IN ('', session_user));

CREATE POLICY team_key_read ON claude_mem.team_key FOR SELECT USING (
  team IN (SELECT claude_mem.my_teams()) AND login = session_user);

-- Keeps head, once per statement, refuses a gap, a repetition or an old key, and wakes the listening devices.
CREATE FUNCTION claude_mem.move_head() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ DECLARE
    log record;
    old bigint;
  BEGIN
    FOR log IN SELECT team, device, min(seq) AS first, max(seq) AS last, count(*) AS count FROM added GROUP BY team, device LOOP
      SELECT seq INTO old FROM head WHERE team = log.team AND device = log.device FOR UPDATE;
      IF log.first <> coalesce(old, 0) + 1 OR log.count <> log.last - log.first + 1 THEN
        RAISE EXCEPTION 'records % to % do not follow %', log.first, log.last, coalesce(old, 0) USING ERRCODE = 'MEM04';
      END IF;
      IF EXISTS (SELECT FROM added a JOIN team t ON t.id = a.team WHERE a.team = log.team AND a.shared AND a.epoch NOT IN (0, t.epoch)) THEN
        RAISE EXCEPTION 'the key of the team was changed' USING ERRCODE = 'MEM05';
      END IF;
      INSERT INTO head (team, device, seq, id)
        SELECT log.team, log.device, log.last, a.id FROM added a WHERE a.team = log.team AND a.device = log.device AND a.seq = log.last
        ON CONFLICT (team, device) DO UPDATE SET seq = excluded.seq, id = excluded.id, at = now();
      PERFORM pg_notify('claude_mem', log.team::text || ' ' || log.device::text);
    END LOOP;
    RETURN NULL;
  END $$;
CREATE TRIGGER record_added AFTER INSERT ON claude_mem.record REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION claude_mem.move_head();

-- Teams, members, devices.

CREATE FUNCTION claude_mem.create_team(team uuid, name text, sealed boolean, team_check bytea, my_check bytea, public_key bytea, proof bytea)
  RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ BEGIN
    INSERT INTO team (id, name, sealed, key_check, epoch_check)
      VALUES (create_team.team, create_team.name, create_team.sealed, team_check, team_check);
    INSERT INTO member (team, login, role, key_check, public_key, proof)
      VALUES (create_team.team, session_user, 'owner', my_check, create_team.public_key, create_team.proof);
  END $$;

CREATE FUNCTION claude_mem.invite(team uuid, token bytea, role text, hours int) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ BEGIN
    PERFORM demand(invite.team, CASE WHEN invite.role IS NULL THEN ARRAY['owner', 'write', 'read'] ELSE ARRAY['owner'] END);
    DELETE FROM invitation i WHERE i.team = invite.team AND i.expires_at < now() - interval '30 days';
    INSERT INTO invitation (token, team, login, role, expires_at)
      VALUES (invite.token, invite.team, session_user, invite.role, now() + make_interval(hours => invite.hours));
  END $$;

-- Checks invitation and keys, then admits the login. Nothing is written if a check fails.
CREATE FUNCTION claude_mem.accept(team uuid, token bytea, team_check bytea, epoch_check bytea, my_check bytea, public_key bytea, proof bytea)
  RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ DECLARE
    found invitation;
    mine member;
  BEGIN
    -- Until the end of this transaction the team keeps its key: one that is being changed gets a copy for this member, too.
    PERFORM FROM team t WHERE t.id = accept.team FOR SHARE;
    SELECT * INTO found FROM invitation i WHERE i.token = accept.token AND i.team = accept.team FOR UPDATE;
    SELECT * INTO mine FROM member m WHERE m.team = accept.team AND m.login = session_user;
    IF found.token IS NULL THEN
      RAISE EXCEPTION 'this invitation is unknown' USING ERRCODE = 'MEM03';
    ELSIF found.expires_at < now() THEN
      RAISE EXCEPTION 'this invitation expired on %', to_char(found.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"') USING ERRCODE = 'MEM03';
    ELSIF mine.removed_at IS NOT NULL THEN
      RAISE EXCEPTION 'login % was removed from this team', session_user USING ERRCODE = 'MEM02';
    ELSIF found.role IS NULL AND found.login <> session_user THEN
      RAISE EXCEPTION 'this invitation is for the machines of %, not of %', found.login, session_user USING ERRCODE = 'MEM03';
    ELSIF found.role IS NOT NULL AND found.used_at IS NOT NULL AND mine.login IS NULL THEN
      RAISE EXCEPTION 'this invitation was used already' USING ERRCODE = 'MEM03';
    ELSIF NOT EXISTS (SELECT FROM team t WHERE t.id = accept.team AND t.key_check = team_check) THEN
      RAISE EXCEPTION 'the key in this invitation is not the key of the team' USING ERRCODE = 'MEM01';
    ELSIF NOT EXISTS (SELECT FROM team t WHERE t.id = accept.team AND t.epoch_check = accept.epoch_check) THEN
      RAISE EXCEPTION 'the team changed its key after this invitation was made' USING ERRCODE = 'MEM03';
    ELSIF mine.login IS NOT NULL AND mine.key_check <> my_check THEN
      RAISE EXCEPTION 'login % has another personal key', session_user USING ERRCODE = 'MEM01';
    END IF;
    IF mine.login IS NULL THEN
      INSERT INTO member (team, login, role, key_check, public_key, proof)
        VALUES (accept.team, session_user, found.role, my_check, accept.public_key, accept.proof);
      mine.role := found.role;
    END IF;
    UPDATE invitation i SET used_at = now() WHERE i.token = accept.token;
    RETURN mine.role;
  END $$;

CREATE FUNCTION claude_mem.register(team uuid, device uuid, label text) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ BEGIN
    PERFORM demand(register.team, ARRAY['owner', 'write', 'read']);
    INSERT INTO device (id, team, login, label) VALUES (register.device, register.team, session_user, left(register.label, 100))
      ON CONFLICT (id) DO NOTHING;
  END $$;

-- The first query of every connection: the team, the caller's place in it, and the server's clock.
CREATE FUNCTION claude_mem.hello(team uuid, device uuid)
  RETURNS TABLE (name text, sealed boolean, epoch int, epoch_check bytea, team_check bytea, my_check bytea, role text, login text, is_device boolean, server_ms bigint)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ BEGIN
    UPDATE device d SET seen_at = now() WHERE d.id = hello.device AND d.team = hello.team AND d.login = session_user AND d.gone_at IS NULL;
    RETURN QUERY SELECT t.name, t.sealed, t.epoch, t.epoch_check, t.key_check, m.key_check, m.role, session_user::text,
        EXISTS (SELECT FROM device d WHERE d.id = hello.device AND d.team = hello.team AND d.login = session_user AND d.gone_at IS NULL),
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint
      FROM member m JOIN team t ON t.id = m.team WHERE m.team = hello.team AND m.login = session_user AND m.removed_at IS NULL;
  END $$;

CREATE FUNCTION claude_mem.devices(team uuid)
  RETURNS TABLE (id uuid, login text, role text, label text, seen_ms bigint, is_gone boolean, seq bigint)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ BEGIN
    PERFORM demand(devices.team, ARRAY['owner', 'write', 'read']);
    RETURN QUERY SELECT d.id, d.login::text, m.role, d.label, (extract(epoch FROM greatest(d.seen_at, h.at)) * 1000)::bigint,
        d.gone_at IS NOT NULL OR m.removed_at IS NOT NULL, coalesce(h.seq, 0)
      FROM device d JOIN member m ON m.team = d.team AND m.login = d.login LEFT JOIN head h ON h.team = d.team AND h.device = d.id
      WHERE d.team = devices.team ORDER BY d.made_at;
  END $$;

-- Forgetting, the one way to remove a body: of these memories, of a project with its keys, or of a device's log, up to a clock.
-- The rows stay, so that every log stays dense. It is bound by the caller's policies: what a login cannot see it cannot forget.
CREATE FUNCTION claude_mem.forget(team uuid, memories uuid[], project bytea, device uuid, hlc bigint) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ DECLARE forgotten bigint; BEGIN
    PERFORM demand(forget.team, CASE
      WHEN forget.device IS NULL THEN ARRAY['owner', 'write']
      WHEN EXISTS (SELECT FROM my_devices() d WHERE d.team = forget.team AND d.device = forget.device) THEN ARRAY['owner', 'write', 'read']
      ELSE ARRAY['owner'] END);
    -- One statement each, for the index that serves it.
    IF forget.memories IS NOT NULL THEN
      UPDATE record r SET body = '' WHERE r.team = forget.team AND r.refers = ANY (forget.memories) AND r.hlc <= forget.hlc AND r.body <> '';
    ELSIF forget.project IS NOT NULL THEN
      UPDATE record r SET body = '' WHERE r.team = forget.team AND r.project = forget.project AND r.hlc <= forget.hlc AND r.body <> '';
    ELSE
      UPDATE record r SET body = '' WHERE r.team = forget.team AND r.device = forget.device AND r.hlc <= forget.hlc AND r.body <> ''
        -- Tombstones stay: another device may still have what they name.
        AND r.kind <> 6;
    END IF;
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    DELETE FROM project_key k WHERE k.team = forget.team AND k.project = forget.project;
    RETURN forgotten;
  END $$;

-- Retires a device.
CREATE FUNCTION claude_mem.retire(team uuid, device uuid) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ BEGIN
    IF NOT EXISTS (SELECT FROM my_devices() d WHERE d.team = retire.team AND d.device = retire.device) THEN
      PERFORM demand(retire.team, ARRAY['owner']);
    END IF;
    UPDATE device d SET gone_at = now() WHERE d.id = retire.device AND d.team = retire.team AND d.gone_at IS NULL;
  END $$;

CREATE FUNCTION claude_mem.members(team uuid)
  RETURNS TABLE (login text, role text, public_key bytea, proof bytea, is_removed boolean)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ BEGIN
    PERFORM demand(members.team, ARRAY['owner', 'write', 'read']);
    RETURN QUERY SELECT m.login::text, m.role, m.public_key, m.proof, m.removed_at IS NOT NULL
      FROM member m WHERE m.team = members.team ORDER BY m.login;
  END $$;

-- Starts a new epoch: its key, sealed for every member. Earlier records stay as they are.
CREATE FUNCTION claude_mem.rotate(team uuid, epoch int, epoch_check bytea, logins name[], wrapped bytea[]) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ BEGIN
    PERFORM demand(rotate.team, ARRAY['owner']);
    UPDATE team t SET epoch = rotate.epoch, epoch_check = rotate.epoch_check WHERE t.id = rotate.team AND t.epoch = rotate.epoch - 1;
    IF NOT FOUND OR EXISTS (SELECT FROM member m WHERE m.team = rotate.team AND (m.removed_at IS NULL) <> (m.login = ANY (logins))) THEN
      RAISE EXCEPTION 'the team''s members or key changed at the same time' USING ERRCODE = 'MEM05';
    END IF;
    INSERT INTO team_key (team, epoch, login, sender, wrapped)
      SELECT rotate.team, rotate.epoch, n.login, session_user, n.wrapped FROM unnest(logins, rotate.wrapped) AS n (login, wrapped);
  END $$;

CREATE FUNCTION claude_mem.remove_member(team uuid, login name) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = claude_mem, pg_temp
  AS $$ BEGIN
    PERFORM demand(remove_member.team, ARRAY['owner']);
    UPDATE member m SET removed_at = now() WHERE m.team = remove_member.team AND m.login = remove_member.login AND m.removed_at IS NULL;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'login % is not a member of this team', remove_member.login USING ERRCODE = 'MEM02';
    END IF;
  END $$;

GRANT USAGE ON SCHEMA claude_mem TO PUBLIC;
GRANT SELECT ON claude_mem.version, claude_mem.record, claude_mem.head, claude_mem.project_key, claude_mem.team_key TO PUBLIC;
-- recv_at is missing: it is the server's.
GRANT INSERT (team, device, seq, id, kind, project, hlc, epoch, shared, refers, body) ON claude_mem.record TO PUBLIC;
GRANT INSERT ON claude_mem.project_key TO PUBLIC;
REVOKE UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA claude_mem FROM PUBLIC;
