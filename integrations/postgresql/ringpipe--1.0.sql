-- SPDX-License-Identifier: MIT
\echo Use "CREATE EXTENSION ringpipe" to load this file. \quit

CREATE FUNCTION ringpipe_start(providers text, folder text, buffer_mb integer DEFAULT 4,
	recover boolean DEFAULT false)
	RETURNS integer AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION ringpipe_start IS 'start a session in all processes that execute statements';

CREATE FUNCTION ringpipe_stop(id integer)
	RETURNS boolean AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION ringpipe_stop IS 'stop a session that ringpipe_start() started';

CREATE FUNCTION ringpipe_sessions(OUT id integer, OUT providers text, OUT folder text,
	OUT running boolean, OUT processes integer, OUT failed integer, OUT delivered bigint,
	OUT lost bigint)
	RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION ringpipe_sessions IS 'list the sessions that ringpipe_start() started';

CREATE FUNCTION ringpipe_counters(OUT name text, OUT value bigint)
	RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION ringpipe_counters IS 'read the counters of all processes of the server';

REVOKE ALL ON FUNCTION ringpipe_start, ringpipe_stop, ringpipe_sessions, ringpipe_counters
	FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ringpipe_sessions, ringpipe_counters TO pg_monitor;
