import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, vi } from "vitest";
import { createTestHarness } from "wrangler";
import { CloudflareAccount } from "../doubles/cloudflare-account/account.ts";
import { startCloudflareAccount } from "../doubles/cloudflare-account/server.ts";
import type { Loopback } from "../doubles/loopback.ts";

/**
 * `npm run deploy:first` against the double of an account. Once the Worker is uploaded, the harness runs it, by the
 * configuration that was deployed and with the secrets that were uploaded; until then its address refuses connections.
 */

export interface Ran {
  readonly code: number | null;
  readonly out: string;
}

/** A TCP relay, so that the address of the service is known before the service runs. */
class Front {
  /** Requests whose bytes contain it are performed, and their answers handed to the function instead of the client. */
  lost: { readonly part: string; readonly act: () => void } | null = null;
  readonly #server: Server = createServer((client) => {
    if (this.target === null) return client.destroy();
    const upstream = connect(this.target, "127.0.0.1");
    client.on("data", (bytes: Buffer) => {
      const { lost } = this;
      if (lost === null || !bytes.includes(lost.part)) return;
      this.lost = null;
      upstream.unpipe(client);
      upstream.once("data", () => {
        lost.act();
        client.destroy();
      });
      upstream.resume();
    });
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      one.on("error", () => other.destroy());
      one.pipe(other);
    }
    return client;
  });
  target: number | null = null;

  async listen(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
  }
}

export class World {
  readonly account = new CloudflareAccount();
  readonly dir = mkdtempSync(join(tmpdir(), "sallyport-first-"));
  readonly #front = new Front();
  #double!: Loopback;
  address = "";
  #harness: ReturnType<typeof createTestHarness> | undefined;
  #child: ChildProcess | undefined;
  /** Everything that any run has printed. */
  printed = "";

  static async open(): Promise<World> {
    const world = new World();
    world.#double = await startCloudflareAccount(world.account);
    world.address = await world.#front.listen();
    world.serveWhenDeployed();
    // Resources of other deployments, on pages before ours.
    for (const name of ["alpha", "beta", "gamma"]) {
      world.account.createQueue(name);
      world.account.createDatabase({ name });
      world.account.createBucket(name, "default");
    }
    return world;
  }

  /** Runs the service as soon as wrangler has set its schedule, which is among its last calls. */
  serveWhenDeployed(): void {
    this.account.afterWrite = (call) => {
      if (/^PUT .*\/schedules$/.test(call)) this.serve().catch((failure) => console.error("the service:", failure));
      return undefined;
    };
  }

  get record(): string {
    return join(this.dir, "record");
  }

  get env(): Record<string, string> {
    return {
      CLOUDFLARE_API_BASE_URL: `${this.#double.url}/client/v4`,
      CLOUDFLARE_API_TOKEN: this.account.token,
      CLOUDFLARE_ACCOUNT_ID: this.account.id,
    };
  }

  /** Starts the service that was deployed. */
  async serve(): Promise<void> {
    if (this.#harness !== undefined) return;
    const secrets = Object.fromEntries(this.account.worker("sallyport").secrets);
    // A copy elsewhere: wrangler has its scratch files beside the configuration.
    const configPath = join(this.dir, "served.json");
    const { secrets_store_secrets = [], ...config } = JSON.parse(
      readFileSync(join(this.record, "wrangler.json"), "utf8"),
    ) as { secrets_store_secrets?: { binding: string; secret_name: string }[] };
    writeFileSync(configPath, JSON.stringify(config));
    // The harness has no stored secrets; test/workers/stored-master-key.test.ts has the binding itself.
    for (const { binding, secret_name } of secrets_store_secrets)
      secrets[binding] = this.account.store?.secrets.get(secret_name)?.value ?? "";
    this.#harness = createTestHarness({ workers: [{ configPath, secrets }] });
    const { url } = await this.#harness.listen();
    await this.#harness.getWorker().applyD1Migrations("LISTINGS");
    this.#front.target = Number(url.port);
  }

  /** Stops the service, and loses its data, as a deletion of the Worker does. */
  async stopService(): Promise<void> {
    this.#front.target = null;
    await this.#harness?.close();
    this.#harness = undefined;
  }

  run(args: readonly string[] = [], env: Record<string, string> = {}): Promise<Ran> {
    const program = ["node_modules/node/bin/node", "--no-warnings", "scripts/deploy-first.ts"];
    return this.start([...program, "--dir", this.record, "--address", this.address, ...args], env);
  }

  /** Starts a program with the account's token, and waits for its end. */
  async start([program = "", ...args]: readonly string[], env: Record<string, string> = {}): Promise<Ran> {
    // The cache saves a sixth of the processor time of wrangler.
    const { PATH, NODE_COMPILE_CACHE } = process.env;
    const child = spawn(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      // A group of its own, so that a kill ends wrangler too.
      detached: true,
      env: { PATH, NODE_COMPILE_CACHE, HOME: this.dir, ...this.env, ...env },
    });
    this.#child = child;
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
    this.printed += out + err;
    return { code: code as number | null, out: out + err };
  }

  /** Deploys without a service behind the address, and ends the program that waits for it. */
  async deployWithoutService(args: readonly string[]): Promise<void> {
    this.account.afterWrite = () => undefined;
    const running = this.run(args);
    await vi.waitFor(() => expect(this.files()["state.json"]).toMatch(/"done": \[[^\]]*"deployed"/), 240_000);
    this.kill();
    await running;
  }

  /** Ends the program at the answer to the first write that matches: the change is made, and its answer lost. */
  killAfter(pattern: RegExp): void {
    this.account.afterWrite = (call) => {
      if (!pattern.test(call)) return undefined;
      this.account.afterWrite = () => undefined;
      this.kill();
      return "cut";
    };
  }

  /** Performs the next request with these bytes, and kills the program instead of answering. */
  killAtAnswerOf(part: string): void {
    this.#front.lost = { part, act: () => this.kill() };
  }

  /** Ends the running program with its children, at once. */
  kill(): void {
    if (this.#child?.pid) process.kill(-this.#child.pid, "SIGKILL");
  }

  /** The files of the record, by name. */
  files(): Record<string, string> {
    if (!existsSync(this.record)) return {};
    return Object.fromEntries(
      readdirSync(this.record, { withFileTypes: true })
        .filter((each) => each.isFile())
        .map(({ name }) => [name, readFileSync(join(this.record, name), "utf8")]),
    );
  }

  /** The names of what this deployment has in the account. */
  owned(): string[] {
    const { databases, queues, buckets, workers, store } = this.account;
    return [
      ...[...databases.values()].map(({ name }) => name),
      ...[...queues.values()].map(({ queue_name }) => queue_name),
      ...buckets.keys(),
      ...workers.keys(),
      ...(store?.secrets.keys() ?? []),
    ].filter((name) => name.startsWith("sallyport"));
  }

  async close(): Promise<void> {
    await this.stopService();
    this.#front.close();
    await this.#double.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}
