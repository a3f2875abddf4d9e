import { readFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { arch, cpus, hostname, machine, networkInterfaces, platform, release, totalmem, version } from "node:os";
import { dirname } from "node:path";
import type { NodeReport } from "@sallyport/agent-protocol";
import { BOOT_ID } from "../boot.ts";

type Resources = NodeReport["NodeResources"];

const MIB = 1024 * 1024;
const CPUFREQ = "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq";
/** Of a core whose speed the machine does not tell: better a unit that can be compared than none. */
const UNKNOWN_MHZ = 1_000;
/** Read once: what the system gives without this file is the speed of the moment. */
const CORE_MHZ =
  Math.round(numberIn(CPUFREQ) / 1000) || Math.max(0, ...cpus().map(({ speed }) => speed)) || UNKNOWN_MHZ;

/** What the machine is, apart from anything configured. Nothing in it changes from minute to minute, so that reports stay rare. */
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

/** The size of the file system that a directory is on, or will be. */
async function roomAt(directory: string): Promise<number> {
  try {
    const { blocks, bsize } = await statfs(directory);
    return blocks * bsize;
  } catch {
    const parent = dirname(directory);
    return parent === directory ? 0 : roomAt(parent);
  }
}

/** The interfaces with an address that others can reach. Those of containers have link-local ones only, and come and go. */
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

/** In megabits a second; 0 when the system does not know, as for most virtual interfaces. */
const speedOf = (device: string) => numberIn(`/sys/class/net/${device}/speed`);

/** The number a file of the system holds; 0 when there is none. */
function numberIn(path: string): number {
  try {
    return Math.max(0, Number.parseInt(readFileSync(path, "utf8"), 10) || 0);
  } catch {
    return 0;
  }
}

function distribution(): { "os.name": string; "os.version": string } {
  let file = "";
  try {
    file = readFileSync("/etc/os-release", "utf8");
  } catch {
    // Not every system has it.
  }
  const field = (name: string) => new RegExp(`^${name}="?([^"\n]*)"?$`, "m").exec(file)?.[1] ?? "";
  return { "os.name": field("ID"), "os.version": field("VERSION_ID") };
}
