import { readFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { arch, cpus, hostname, machine, networkInterfaces, platform, release, totalmem, version } from "node:os";
import { dirname } from "node:path";
import type { NodeReport } from "@sallyport/agent-protocol";
import { BOOT_ID } from "../boot.ts";

type Resources = NodeReport["NodeResources"];

const MIB = 1024 * 1024;
const CPUFREQ = "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq";
/** Assumed core speed when the machine reports none, so that nodes stay comparable. */
const UNKNOWN_MHZ = 1_000;
/** Read once: without this file the system reports the momentary speed. */
const CORE_MHZ =
  Math.round(numberIn(CPUFREQ) / 1000) || Math.max(0, ...cpus().map(({ speed }) => speed)) || UNKNOWN_MHZ;

/**
 * Facts of the machine, independent of configuration. None changes from minute to minute, so that reports stay rare.
 */
export async function machineFacts(
  volumesDir: string,
): Promise<{ attributes: Record<string, string>; resources: Resources }> {
  const cores = cpus();
  const totalMhz = CORE_MHZ * cores.length;
  const storageBytes = await roomAt(volumesDir);
  const nodeNetworks = networks();
  const primary = nodeNetworks.flatMap(({ Device, Speed, Addresses }) =>
    Addresses.filter(({ Family }) => Family === "ipv4").map(({ Address }) => ({ Device, Speed, Address })),
  )[0];
  const attributes = {
    "cpu.arch": arch() === "x64" ? "amd64" : arch(),
    "cpu.numcores": String(cores.length),
    "cpu.frequency": String(CORE_MHZ),
    "cpu.modelname": cores[0]?.model ?? "",
    "cpu.totalcompute": String(totalMhz),
    "kernel.name": platform(),
    "kernel.version": release(),
    "kernel.build": version(),
    "kernel.arch": machine(),
    "memory.totalbytes": String(totalmem()),
    ...distribution(),
    "unique.boot": BOOT_ID,
    "unique.host_id": hostId(),
    "unique.hostname": hostname(),
    "unique.network.ip-address": primary?.Address ?? "",
    "unique.storage.volume": volumesDir,
    "unique.storage.bytestotal": String(storageBytes),
  };
  return {
    attributes: Object.fromEntries(
      Object.entries(attributes)
        .filter(([, value]) => value !== "" && value !== "0")
        .map(([name, value]) => [name, value.slice(0, 1024)]),
    ),
    resources: {
      Cpu: { CpuShares: totalMhz, TotalCpuCores: cores.length },
      Memory: { MemoryMB: Math.floor(totalmem() / MIB) },
      Disk: { DiskMB: Math.floor(storageBytes / MIB) },
      Networks: primary
        ? [
            {
              Mode: "host",
              Device: primary.Device,
              CIDR: `${primary.Address}/32`,
              IP: primary.Address,
              MBits: primary.Speed,
            },
          ]
        : [],
      NodeNetworks: nodeNetworks,
    },
  };
}

/** The machine's id as Nomad's clients report it: that of the board, else of the installation, else of the boot. */
function hostId(): string {
  const installation = lineIn("/etc/machine-id");
  return (
    lineIn("/sys/class/dmi/id/product_uuid").toLowerCase() ||
    (installation.length === 32
      ? installation.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")
      : lineIn("/proc/sys/kernel/random/boot_id").toLowerCase())
  );
}

/** The first line of a file; empty without it. */
function lineIn(file: string): string {
  try {
    return readFileSync(file, "utf8").split("\n", 1)[0] ?? "";
  } catch {
    return "";
  }
}

/** In bytes. Network file systems may state more than a report can hold. */
export const capacityOf = ({ blocks, bsize }: { blocks: number; bsize: number }): number =>
  Math.min(blocks * bsize, Number.MAX_SAFE_INTEGER);

/** The size of the file system of a directory or its closest existing parent. */
async function roomAt(directory: string): Promise<number> {
  try {
    return capacityOf(await statfs(directory));
  } catch {
    const parent = dirname(directory);
    return parent === directory ? 0 : roomAt(parent);
  }
}

/**
 * The interfaces with a reachable address. Interfaces of containers have link-local addresses only and change often.
 */
function networks(): Resources["NodeNetworks"] {
  return Object.entries(networkInterfaces())
    .map(([Device, addresses = []]) => ({
      Mode: "host",
      Device,
      MacAddress: addresses[0]?.mac ?? "",
      Speed: speedOf(Device),
      Addresses: addresses
        .filter(({ internal, address }) => !internal && !/^fe80:/i.test(address) && !address.startsWith("169.254."))
        .slice(0, 128)
        .map(({ family, address }) => ({
          Family: family === "IPv4" ? ("ipv4" as const) : ("ipv6" as const),
          Alias: "default",
          Address: address,
          ReservedPorts: "",
          Gateway: "",
        })),
    }))
    .filter(({ Addresses }) => Addresses.length > 0)
    .slice(0, 128);
}

/** In Mbit/s; 0 when unknown, as for most virtual interfaces. */
const speedOf = (device: string) => numberIn(`/sys/class/net/${device}/speed`);

/** The number in a system file; 0 without one. */
function numberIn(path: string): number {
  return Math.max(0, Number.parseInt(lineIn(path), 10) || 0);
}

function distribution(): { "os.name": string; "os.version": string } {
  let file = "";
  try {
    file = readFileSync("/etc/os-release", "utf8");
  } catch {
    // Optional file.
  }
  const field = (name: string) => new RegExp(`^${name}="?([^"\n]*)"?$`, "m").exec(file)?.[1] ?? "";
  return { "os.name": field("ID"), "os.version": field("VERSION_ID") };
}
