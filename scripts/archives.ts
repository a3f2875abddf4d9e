/** Archives whose bytes depend on their content alone: no time, user or order of this machine. */
import { gzipSync } from "node:zlib";
import { pack } from "tar-stream";

export interface ArchiveFile {
  readonly path: string;
  readonly content: Uint8Array;
  readonly executable?: boolean;
}

/** A gzip-compressed tar archive of root's files, with the directories above them. @param time of all entries */
export async function tarGz(files: readonly ArchiveFile[], time: Date, prefix = "./"): Promise<Buffer> {
  const archive = pack();
  const common = { mtime: time, uid: 0, gid: 0, uname: "root", gname: "root" };
  const directories = new Set<string>();
  for (const { path, content, executable } of files) {
    const names = path.split("/").slice(0, -1);
    for (const [at] of names.entries()) {
      const name = `${prefix}${names.slice(0, at + 1).join("/")}/`;
      if (!directories.has(name)) archive.entry({ name, type: "directory", mode: 0o755, ...common });
      directories.add(name);
    }
    archive.entry({ name: prefix + path, mode: executable ? 0o755 : 0o644, ...common }, Buffer.from(content));
  }
  archive.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of archive) chunks.push(chunk as Buffer);
  return gzipSync(Buffer.concat(chunks));
}

/** A Debian package (deb(5)): an `ar` archive of a version, control files and content. */
export async function debianPackage(
  control: readonly ArchiveFile[],
  content: readonly ArchiveFile[],
  time: Date,
): Promise<Buffer> {
  const members: [name: string, content: Buffer][] = [
    ["debian-binary", Buffer.from("2.0\n")],
    ["control.tar.gz", await tarGz(control, time)],
    ["data.tar.gz", await tarGz(content, time)],
  ];
  const seconds = String(Math.floor(time.getTime() / 1000));
  const parts = members.flatMap(([name, bytes]) => {
    const header = [name.padEnd(16), seconds.padEnd(12), "0".padEnd(6), "0".padEnd(6), "100644".padEnd(8)].join("");
    return [
      Buffer.from(`${header}${String(bytes.length).padEnd(10)}\`\n`),
      bytes,
      Buffer.from("\n".repeat(bytes.length % 2)),
    ];
  });
  return Buffer.concat([Buffer.from("!<arch>\n"), ...parts]);
}
