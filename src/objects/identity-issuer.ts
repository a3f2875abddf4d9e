import type { IdentityIssuerApi, PublicKey, SyncTokenRequest, TokenRequest } from "../contracts/identity-issuer.ts";
import { issuerIn, setIssuer } from "../identity/configuration.ts";
import { identityMigrations } from "../identity/schema.ts";
import { SigningKeys, VERIFICATION_TTL_MS } from "../identity/signing-keys.ts";
import { claimsOf, syncClaimsOf } from "../identity/token.ts";
import { originOf } from "../lib/origin.ts";
import { ok, type Result } from "../lib/result.ts";
import { DataKeys, dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { masterKey } from "../platform/crypto/master-key.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { StoredObject } from "../platform/durable/stored-object.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { settings } from "../platform/settings.ts";
import { accessControl } from "../rpc/stubs.ts";

/**
 * Issues the identity tokens by which mounts and sync destinations authenticate at providers without a secret. One
 * instance per deployment; private keys never leave it. Keys are created on the first request for a token or the key
 * set.
 */
export class IdentityIssuer extends StoredObject implements IdentityIssuerApi {
  readonly #keys: DataKeys;
  readonly #signing: SigningKeys;

  protected override get kind() {
    return "identity-issuer" as const;
  }

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, identity: identityMigrations },
      { "key-holder": () => this.#deliverKeyHolder() },
    );
    this.#keys = new DataKeys(this.sql, "identity-issuer", () => masterKey(this.env));
    this.#signing = new SigningKeys(this.sql, this.#keys);
  }

  /** The configured origin of all issuers; empty when unset. */
  configured(): string {
    return issuerIn(this.sql);
  }

  /** @param issuer an origin, or empty to use the deployment's default */
  configure(issuer: string): void {
    this.commit(() => setIssuer(this.sql, issuer));
    recordAction("identity-issuer-configured", { issuer });
  }

  /**
   * The origin of all issuers: configured, else the setting `PUBLIC_URL`; null when each request's own origin is used.
   */
  origin(): string | null {
    return this.configured() || originOf(settings(this.env).PUBLIC_URL ?? "");
  }

  /** Every public key that may have signed a valid token, or soon will. */
  async published(): Promise<Result<PublicKey[]>> {
    const begun = await this.#begun();
    return begun.ok ? ok(this.#signing.published(Date.now())) : begun;
  }

  /** A new token of a mount, signed with the current key. */
  sign(ask: TokenRequest): Promise<Result<string>> {
    return this.#signed(claimsOf(ask, Date.now()));
  }

  /** A new token of a sync destination, signed with the current key. */
  signSync(ask: SyncTokenRequest): Promise<Result<string>> {
    return this.#signed(syncClaimsOf(ask, Date.now()));
  }

  /** @param verificationMs how long the previous signing key stays published */
  async rotate(verificationMs = VERIFICATION_TTL_MS): Promise<Result<null>> {
    const begun = await this.#begun();
    return begun.ok ? refuseIfSealed(() => this.#rotate(verificationMs, Date.now())) : begun;
  }

  rekey(term: number): void {
    this.commit(() => this.#keys.rotate(term, Date.now()));
  }

  // ---- inside ----

  protected override ownDeadline(): number | null {
    return this.#signing.nextDue();
  }

  protected override async onAlarm(now: number): Promise<void> {
    if (this.#signing.isDue(now)) this.#rotate(VERIFICATION_TTL_MS, now);
    else this.commit(() => this.#signing.dropEnded(now));
  }

  async #signed(claims: Readonly<Record<string, unknown>>): Promise<Result<string>> {
    const begun = await this.#begun();
    return begun.ok ? refuseIfSealed(() => ok(this.#signing.sign(claims))) : begun;
  }

  async #begun(): Promise<Result<null>> {
    if (this.#signing.any()) return ok(null);
    const begun = refuseIfSealed(() => {
      this.commit(() => {
        this.#signing.begin(Date.now());
        this.outbox.enlistLatest("key-holder", "", null);
      });
      return ok(null);
    });
    await this.outbox.drain();
    return begun;
  }

  #rotate(verificationMs: number, now: number): Result<null> {
    const kid = this.commit(() => this.#signing.rotate(verificationMs, now));
    recordAction("identity-key-rotated", { kid });
    return ok(null);
  }

  async #deliverKeyHolder(): Promise<void> {
    const term = await accessControl(this.env).holdsKeys("identity-issuer", "main", true);
    this.rekey(term);
  }
}
