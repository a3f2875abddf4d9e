import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DoubleAccount, fieldsOf, Refusal, type Reply, startHttpDouble } from "../../doubles/http-double.ts";
import { byName, type Place, type StandIn } from "../../doubles/stand-in.ts";

interface File {
  value: string;
  owner: string;
  intent: string;
  version: number;
}

/** A folder of JSON files, and the token that reaches it. */
class Folder extends DoubleAccount {
  readonly name: string;
  readonly token = crypto.randomUUID();
  readonly #path: string;
  #versions = 0;

  constructor(root: string, name: string) {
    super();
    this.name = name;
    this.#path = join(root, name);
    mkdirSync(this.#path);
  }

  read(name: string): File | null {
    return this.names().includes(name) ? (JSON.parse(readFileSync(this.#file(name), "utf8")) as File) : null;
  }

  write(name: string, file: Omit<File, "version">): File {
    const written = { ...file, version: ++this.#versions };
    writeFileSync(this.#file(name), JSON.stringify(written));
    return written;
  }

  remove = (name: string): void => rmSync(this.#file(name));
  names = (): string[] => readdirSync(this.#path).map((file) => file.replace(/\.json$/, ""));
  #file = (name: string): string => join(this.#path, `${name}.json`);
}

const refuse = (status: number, missing?: string) => new Refusal(status, { missing });

/** A directory of JSON files behind HTTP. */
export async function startStandIn(): Promise<StandIn> {
  const root = mkdtempSync(join(tmpdir(), "json-files-"));
  const folders: Folder[] = [];
  const double = await startHttpDouble<Folder>({
    authenticate({ headers }) {
      const folder = folders.find(({ token }) => headers["authorization"] === `Bearer ${token}`);
      if (!folder) throw refuse(401);
      return folder;
    },
    perform(request, folder): Reply {
      const [, path = "", name = ""] = request.url.pathname.split("/");
      if (path !== folder.name) throw refuse(404, "folder");
      if (!/^[a-z0-9-]{1,80}$/.test(name)) throw refuse(400, "name");
      const found = folder.read(name);
      if (request.method === "PUT") {
        const { value, owner, intent } = fieldsOf(request, ["value", "owner", "intent"], () => refuse(400));
        const written = folder.write(name, { value: String(value), owner: String(owner), intent: String(intent) });
        return { status: 200, body: { ...written, value: undefined } };
      }
      if (!found) throw refuse(404, "file");
      if (request.method === "DELETE") {
        folder.remove(name);
        return { status: 204 };
      }
      return { status: 200, body: { ...found, value: undefined } };
    },
    isWrite: ({ method }) => method !== "GET",
    refusals: {
      throttled: { status: 429, headers: { "retry-after": "1" } },
      unavailable: { status: 503 },
      forbidden: { status: 403 },
    },
  });
  return {
    type: "json-files",
    settings: {},
    open() {
      const folder = new Folder(root, `folder${folders.length}`);
      folders.push(folder);
      return placeOf(double.url, folder);
    },
    async close() {
      await double.close();
      rmSync(root, { recursive: true });
    },
  };
}

function placeOf(url: string, folder: Folder): Place {
  const body = { url, folder: folder.name, token: folder.token };
  return {
    body,
    wrongCredentials: { ...body, token: "wrong" },
    missing: { ...body, folder: "missing" },
    objects: () =>
      byName(
        folder.names().map((name) => {
          const { value = "", owner } = folder.read(name) ?? {};
          return { name, value, owned: owner === "sallyport" };
        }),
      ),
    write: (name, value) => void folder.write(name, { value, owner: "another", intent: "" }),
    remove: (name) => folder.remove(name),
    fail: (fault, times) => folder.fail(fault, times),
    writes: () => folder.writes,
  };
}
