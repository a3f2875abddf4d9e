import { envelope, noContent, storedAnswer } from "./server/respond.ts";
import { type Call, open, secrets } from "./server/route.ts";
import { refuses } from "./server/unsent.ts";

/**
 * Operations on the seal, the key shares and the servers of upstream
 * (https://developer.hashicorp.com/vault/api-docs/system/seal). This service has none of them: reads answer that nothing
 * is in progress, cancellations have nothing to cancel, and the others refuse with what to do instead.
 */

const REKEY =
  "rekey: there are no key shares; replace MASTER_KEY in the deployment and rotate with sys/rotate (docs/operate/security.md)";
const ROOT_TOKEN =
  "generate-root: there are no key shares; the first token is made by /v1/acl/bootstrap, further ones by auth/token/create";

/** Upstream's answer while no operation is in progress. */
const NO_REKEY = {
  nonce: "",
  started: false,
  t: 0,
  n: 0,
  progress: 0,
  required: 1,
  pgp_fingerprints: null,
  backup: false,
  verification_required: false,
};
const NO_GENERATION = {
  nonce: "",
  started: false,
  progress: 0,
  required: 1,
  complete: false,
  encoded_token: "",
  encoded_root_token: "",
  pgp_fingerprint: "",
  otp: "",
  otp_length: 0,
};

const refused = (path: string, because: string) => open(`POST ${path}`, { refuses: true }, refuses(400, because));

/** @param idle the answer while nothing is in progress */
const operation = (path: string, idle: (call: Call) => Response, because: string) => [
  open(`GET ${path}`, async (call) => idle(call)),
  refused(path, because),
  open(`DELETE ${path}`, async () => noContent()),
];

export const sealRoutes = [
  secrets(
    "POST /sys/seal",
    { access: "sudo", fresh: true, refuses: true },
    refuses(400, "seal: the service is sealed by removing MASTER_KEY from the deployment"),
  ),
  ...operation("/sys/rekey/init", () => storedAnswer(JSON.stringify(NO_REKEY)), REKEY),
  refused("/sys/rekey/update", REKEY),
  // The same by the names of OpenBao, whose clients read the data of an envelope.
  ...operation("/sys/rotate/root/init", (call) => envelope(call, { data: NO_REKEY }), REKEY),
  refused("/sys/rotate/root/update", REKEY),
  ...operation("/sys/generate-root-token/attempt", (call) => envelope(call, { data: NO_GENERATION }), ROOT_TOKEN),
  refused("/sys/generate-root-token/update", ROOT_TOKEN),
  secrets("GET /sys/rekey/backup", { access: "sudo", refuses: true }, refuses(400, REKEY)),
  ...operation("/sys/generate-root/attempt", () => storedAnswer(JSON.stringify(NO_GENERATION)), ROOT_TOKEN),
  refused("/sys/generate-root/update", ROOT_TOKEN),
  // No other server could take over; upstream without a cluster answers the same.
  secrets("POST /sys/step-down", { access: "sudo", fresh: true }, async () => noContent()),
  secrets("GET /sys/rotate/config", { access: "sudo" }, async (call) =>
    envelope(call, { data: { enabled: false, interval: 0, max_operations: 0 }, flat: true }),
  ),
  secrets(
    "POST /sys/rotate/config",
    { access: "sudo", refuses: true },
    refuses(400, "rotate: there is no automatic rotation; call sys/rotate"),
  ),
];
