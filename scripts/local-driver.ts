/** The CSI driver beside each agent that `npm start` runs: volumes are directories that all of them share. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { LocalChild } from "./local-child.ts";

/** Its plugin id. */
export const CSI_PLUGIN = "dir";

/** Maximum length of a socket path on all systems. */
const MAX_PATH_BYTES = 103;

export class LocalDriver {
  readonly socket: string;
  readonly #child: LocalChild;
  readonly #short: string | undefined;

  /**
   * @param node the served node
   * @param dir of that node
   * @param root directory of the volumes
   */
  constructor(node: string, dir: string, root: string) {
    const socket = resolve(dir, "csi.sock");
    this.#short = Buffer.byteLength(socket) > MAX_PATH_BYTES ? mkdtempSync(join(tmpdir(), "csi-")) : undefined;
    this.socket = this.#short ? join(this.#short, "csi.sock") : socket;
    this.#child = new LocalChild({
      what: `CSI driver of ${node}`,
      module: new URL(import.meta.resolve("./csi-child.ts")),
      env: { CSI_ENDPOINT: `unix://${this.socket}`, CSI_DIR_ROOT: resolve(root), CSI_DIR_NODE_ID: node },
      log: join(dir, "csi-dir.log"),
    });
    this.#child.keep({ begin: async () => {}, forGood: () => undefined });
  }

  async stop(): Promise<void> {
    await this.#child.stop();
    if (this.#short) rmSync(dirname(this.socket), { recursive: true, force: true });
  }
}
