import * as z from "zod";
import { connectionSchema } from "../fields.ts";
import { checkTokenLogin, identityTokenFields } from "../identity-fields.ts";
import { addressField } from "../listed-host.ts";

const printable = (most: number) =>
  z
    .string("must be a text")
    .regex(/^[\x21-\x7e]*$/, "must be printable characters without spaces")
    .max(most, `must be at most ${most} characters`)
    .optional();

/** Written again by its controller. */
const CONTROLLED = "kubernetes.io/service-account-token";

const CA_RULE =
  "is not possible: on Cloudflare a Worker trusts public certificates only. Serve the API server under a public " +
  "certificate, or by a VPC service; a self-hosted service trusts the CAs in TRUSTED_CAS";

/** A destination's connection to a namespace of its cluster. */
export const clusterConnection = connectionSchema(
  () => ({
    host: addressField(),
    namespace: z
      .string("must be a text")
      .regex(/^(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "must be 1 to 63 lower-case letters, digits and inner -"),
    /** Absent with `identity_token_audience`. */
    token: printable(16_384),
    secret_type: z
      .string("must be a text")
      .regex(/^[\w./-]{0,253}$/, "must be at most 253 letters, digits or characters of ._/-")
      .refine((type) => type !== CONTROLLED, `must not be ${CONTROLLED}`)
      .optional(),
    access_client_id: printable(256),
    access_client_secret: printable(256),
    ca_cert: z.undefined(CA_RULE).optional(),
    ...identityTokenFields,
  }),
  (given, refuse) => {
    checkTokenLogin(given, refuse);
    if (!given.access_client_id !== !given.access_client_secret) {
      const missing = given.access_client_id ? "access_client_secret" : "access_client_id";
      refuse(missing, "access_client_id and access_client_secret must be given together or not at all");
    }
  },
);
export type ClusterConnection = z.infer<ReturnType<typeof clusterConnection>>;
