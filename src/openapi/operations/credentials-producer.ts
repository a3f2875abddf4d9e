import * as z from "zod";
import { description } from "../../credentials/engines/https-producer/description.ts";
import { keys, seconds } from "../../wire/shapes.ts";
import { data, group, noContent, text } from "../operation.ts";
import { helpOf } from "./credentials.ts";

const map = z.record(z.string(), z.string());

const Config = z
  .object({
    url: z.string(),
    vars: map,
    producer: z.record(z.string(), z.unknown()).describe("The definition, with its defaults."),
    secret_names: z.array(z.string()),
  })
  .meta({ id: "ProducerConfig", description: "The stored configuration, never with `secrets`." });

const Role = z
  .object({
    vars: map,
    ttl: seconds,
    max_ttl: seconds,
    share_until: z.int().optional().describe("Absent when it is 0."),
  })
  .meta({ id: "ProducerRole" });

const FAILS = [502, 504];

export const producerCredentials = group(
  "Credentials",
  { name: "The role's name: letters, digits, `_`, `.` and `-`; the case is kept." },
  {
    "GET /https-producer/config": {
      id: "readProducerConfig",
      summary: "Read the engine's configuration",
      answers: data("The configuration.", Config),
    },
    "POST /https-producer/config": {
      id: "writeProducerConfig",
      summary: "Configure the engine",
      description: "Omitted fields keep their values. `producer` may be JSON in a text or JSON itself.",
      body: { fields: { ...helpOf(description.config), producer: { description: description.config.producer.help } } },
      answers: noContent,
    },
    "LIST /https-producer/roles": {
      id: "listProducerRoles",
      summary: "List the roles",
      answers: data("Their names.", keys),
    },
    "GET /https-producer/roles/:name": {
      id: "readProducerRole",
      summary: "Read a role",
      answers: data("The role.", Role),
    },
    "POST /https-producer/roles/:name": {
      id: "writeProducerRole",
      summary: "Create or update a role",
      description: "The search of the definition is tried once: a role is refused while it does not work.",
      body: { fields: helpOf(description.roles) },
      answers: noContent,
      errors: FAILS,
    },
    "DELETE /https-producer/roles/:name": {
      id: "deleteProducerRole",
      summary: "Delete a role",
      answers: noContent,
    },
    "GET /https-producer/creds/:name": {
      id: "generateProducerCredentials",
      summary: "Generate credentials for a role",
      query: {
        metadata: text("`key=value`, repeatedly: answered with the credentials."),
        verify: "Responds when the call `verify` succeeds with the credentials, or with a warning after a time-out.",
      },
      headers: {
        "X-Orch-Idempotency-Key": text(
          "Repeating a request with the same key gives the same lease; at most 256 characters.",
        ),
      },
      answers: data(
        "The members of the definition's `lease.data`, with their lease.",
        z.record(z.string(), z.unknown()),
      ),
      errors: [405, ...FAILS],
    },
  },
);
