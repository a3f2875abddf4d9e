import { execFileSync } from "node:child_process";

/**
 * The provenance of a release: a statement of in-toto (https://in-toto.io/Statement/v1) with a predicate of SLSA
 * (https://slsa.dev/spec/v1.0/provenance). It has no times and no names of machines, so that an equal release has equal
 * bytes. Its signature is that of SHA256SUMS, which lists it.
 */

export const PROVENANCE = "sallyport.provenance.json";

interface Built {
  readonly release: string;
  /** Whether the packages for Linux are part of the release. */
  readonly packages: boolean;
  /** Null when the sources are those of no commit. */
  readonly commit: string | null;
  /** SHA-256 of package-lock.json. */
  readonly lock: string;
  /** SHA-256 of each file, by its path. */
  readonly files: ReadonlyMap<string, string>;
}

export function provenance({ release, packages, commit, lock, files }: Built): object {
  return {
    _type: "https://in-toto.io/Statement/v1",
    subject: [...files].map(([name, sha256]) => ({ name, digest: { sha256 } })),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        // Described in docs/internals/releases.md#provenance.
        buildType: "urn:sallyport:build:npm-run-release:1",
        externalParameters: { release, packages },
        resolvedDependencies: [
          ...(commit === null ? [] : [{ name: "source", digest: { gitCommit: commit } }]),
          { name: "package-lock.json", digest: { sha256: lock } },
        ],
      },
      runDetails: { builder: { id: "urn:sallyport:builder:scripts/release.ts" } },
    },
  };
}

/** The commit whose files a checkout has; null without one, and after any change. */
export function commitOf(dir: string): string | null {
  const git = (...args: string[]): string =>
    execFileSync("git", ["-C", dir, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  try {
    return git("status", "--porcelain") === "" ? git("rev-parse", "--verify", "HEAD") : null;
  } catch {
    return null;
  }
}
