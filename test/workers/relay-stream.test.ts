import { afterAll, beforeEach } from "vitest";
import { throughRelays } from "./streams.ts";

/* The same promises again: each holds through a relay just as at the log. */

beforeEach(() => throughRelays(1));
afterAll(() => throughRelays(0));

// Another module than the one that ran before in the same runtime.
import "./stream.quick.test.ts?through-relays";
