/** The tables of backups. */
import { BACKUP_AIM, type Backup, type BackupResults, type BackupScale, type Memory } from "./backup.ts";
import type { Plot } from "./plot.ts";
import { count, heading, latency, percent, type RunInfo, ratio, table } from "./report.ts";
import type { Figure } from "./statistics.ts";

export interface BackupReport extends RunInfo {
  readonly scale: BackupScale;
  readonly loaderBusy: number;
  readonly backup: BackupResults;
}

export function backupMarkdown(report: BackupReport): string {
  const { scale, backup } = report;
  const { sizes, meanwhile } = backup;
  return [
    heading(report, [
      `${scale.rounds} rounds, slices of ${scale.sliceMs} ms`,
      `load generator at most ${percent(report.loaderBusy)} of a core`,
    ]),
    "",
    ...table(
      ["secrets", "objects", "rows", "first byte after, ms", "policies held up for, ms", "secrets held up for, ms"],
      sizes.map((size) => [
        count(size.secrets),
        count(size.objects),
        count(size.rows),
        ms(size.begun),
        ms(size.heldUp.policy),
        ms(size.heldUp.secret),
      ]),
    ),
    "",
    ...table(
      ["a snapshot", "MB", "s", "bare s", "MB/s", "bare MB/s", "CPU s", "bare CPU s", "MiB before / at most", "bare"],
      sizes.map(({ secrets, snapshot, bare }) => [
        `${count(secrets)} secrets`,
        megabytes(snapshot.bytes).toFixed(1),
        seconds(snapshot.seconds),
        seconds(bare.seconds),
        perSecond(snapshot),
        perSecond(bare),
        optional(snapshot.cpu),
        optional(bare.cpu),
        memory(snapshot.memory),
        memory(bare.memory),
      ]),
    ),
    "",
    ...table(
      [
        "the way back",
        "restore s",
        "MB/s",
        "CPU s",
        "MiB before / at most",
        "lists rebuilt s",
        "CPU s",
        "MiB before / at most",
      ],
      sizes.map(({ secrets, snapshot, restore, listings }) => [
        `${count(secrets)} secrets`,
        restore.seconds.toFixed(1),
        (megabytes(snapshot.bytes) / restore.seconds).toFixed(1),
        restore.cpu?.toFixed(1) ?? "",
        memory(restore.memory),
        listings.seconds.toFixed(1),
        listings.cpu?.toFixed(1) ?? "",
        memory(listings.memory),
      ]),
    ),
    "",
    ...table(["memory at most, many against few", "times", "aim", ""], grown(sizes)),
    "",
    ...table(
      ["secrets, while a snapshot is read", "meanwhile /s", "else /s", "p50 / p99 ms", "else", "ratio (spread)"],
      meanwhile.map((row) => [
        row.name,
        count(row.measured.perSecond.median),
        count(row.against.perSecond.median),
        latency(row.measured),
        latency(row.against),
        ratio(row.ratio),
      ]),
    ),
  ].join("\n");
}

export const backupPlots = ({ backup: { sizes } }: BackupReport): Plot[] => [
  {
    file: "backup",
    title: "Backups: a row by how many there are",
    sizes: "rows of all objects",
    costs: "CPU µs a row",
    lines: [
      { name: "snapshot", side: "ours", points: points(sizes, ({ snapshot }) => snapshot.cpu?.median) },
      { name: "restore, lists included", side: "ours", points: points(sizes, ({ restore }) => restore.cpu) },
      {
        name: "bare: rows of one object, encrypted",
        side: "bare",
        points: points(sizes, ({ bare }) => bare.cpu?.median),
      },
    ],
  },
];

const points = (sizes: readonly Backup[], cost: (size: Backup) => number | null | undefined) =>
  sizes.flatMap((size) => {
    const cpu = cost(size);
    return cpu == null ? [] : [[size.rows, (cpu / size.rows) * 1e6] as const];
  });

function grown(sizes: readonly Backup[]): string[][] {
  const [few, many] = [sizes[0], sizes.at(-1)];
  if (!few || !many) return [];
  const row = (name: string, small: Memory | null, large: Memory | null): string[] => {
    if (!small || !large) return [name, "", "", ""];
    const times = large.most / small.most;
    return [name, times.toFixed(2), `≤ ${BACKUP_AIM.memory}`, times <= BACKUP_AIM.memory ? "met" : "missed"];
  };
  return [
    row("a snapshot", few.snapshot.memory, many.snapshot.memory),
    row("a restore", few.restore.memory, many.restore.memory),
    row("lists rebuilt", few.listings.memory, many.listings.memory),
  ];
}

const megabytes = (bytes: number): number => bytes / 1e6;
const ms = ({ median, low, high }: Figure): string => `${count(median)} (${count(low)}–${count(high)})`;
const seconds = ({ median, low, high }: Figure): string =>
  `${median.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;
const perSecond = ({ bytes, seconds: { median } }: { bytes: number; seconds: Figure }): string =>
  (megabytes(bytes) / median).toFixed(1);
const optional = (value: Figure | null): string => value?.median.toFixed(2) ?? "";
const memory = (value: Memory | null): string =>
  value ? `${count(value.before / 2 ** 20)} / ${count(value.most / 2 ** 20)}` : "";
