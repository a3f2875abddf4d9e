import * as z from "zod";
import { description } from "../../credentials/engines/https-producer/description.ts";
import { seconds } from "../../wire/shapes.ts";
import { data, group, noContent, warned } from "../operation.ts";
import {
  askedMetadata,
  helpOf,
  idempotencyKey,
  next_rotation_date,
  rotationSettings,
  UPSTREAM_FAILS,
} from "./credential-parts.ts";

const map = z.record(z.string(), z.string());

const Config = z
  .object({
    url: z.string(),
    vars: map,
    producer: z.record(z.string(), z.unknown()).describe("The definition, with its defaults."),
    secret_names: z.array(z.string()),
    ...rotationSettings,
    next_rotation_date,
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

const DryRun = z
  .object({
    calls: z.array(
      z.object({
        call: z.string().describe("The part of the definition, such as `root.create`."),
        method: z.string(),
        url: z.string(),
        headers: map,
        body: z.string().optional(),
      }),
    ),
    lease: z.object({ data: map }),
    problems: z.array(z.string()).describe("Values that are missing, and pointers that an answer does not have."),
  })
  .meta({ id: "ProducerDryRun" });

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
    },
    "POST /https-producer/config/rotate-root": {
      id: "rotateProducerRoot",
      summary: "Rotate the engine's secrets",
      description:
        "Makes new secrets by `root` of the definition, uses them three times, stores them, and removes those before.",
      answers: { ...noContent, ...warned("Replaced; the secrets before are not removed.") },
      errors: UPSTREAM_FAILS,
    },
    "POST /https-producer/dry-run": {
      id: "dryRunProducer",
      summary: "Show the calls of a definition",
      description:
        "With sample values; secrets are `***`, and nothing is sent. What the body leaves out is that of the configuration.",
      body: {
        fields: {
          url: { description: description.config.url.help },
          vars: { description: description.config.vars.help },
          producer: { description: description.config.producer.help },
          role: { type: "string", description: "A role, for its variables." },
          answers: {
            description:
              "Answers of the provider by call (`create`, `find`, `root.self`, `root.create`, `root.find`), which the pointers of the call are tried on.",
          },
        },
      },
      answers: data("The calls, the answer with credentials, and the problems.", DryRun),
    },
    "LIST /https-producer/roles": { id: "listProducerRoles", summary: "List the roles" },
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
      errors: UPSTREAM_FAILS,
    },
    "DELETE /https-producer/roles/:name": { id: "deleteProducerRole", summary: "Delete a role" },
    "GET /https-producer/creds/:name": {
      id: "generateProducerCredentials",
      summary: "Generate credentials for a role",
      query: {
        metadata: askedMetadata,
        verify: "Responds when the call `verify` succeeds with the credentials, or with a warning after a time-out.",
      },
      headers: idempotencyKey,
      answers: data(
        "The members of the definition's `lease.data`, with their lease.",
        z.record(z.string(), z.unknown()),
      ),
      errors: [405, ...UPSTREAM_FAILS],
    },
  },
);
