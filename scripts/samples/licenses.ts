import type { PackageFiles } from './obtain.ts';

/** The licences under which excerpts may be shipped, and a sentence that their text must hold. */
const permissive: ReadonlyMap<string, RegExp> = new Map([
  ['MIT', /permission is hereby granted, free of charge, to any person obtaining a copy/i],
  ['MIT-0', /permission is hereby granted, free of charge, to any person obtaining a copy/i],
  ['ISC', /permission to use, copy, modify, and(?:\/or)? distribute this software/i],
  ['BSD-2-Clause', /redistribution and use in source and binary forms/i],
  ['BSD-3-Clause', /neither the names? of/i],
  ['Apache-2.0', /apache license,?\s+version 2\.0/i],
]);

/** Where the terms start and what stands before them is the title and the holder. */
const termsStart =
  /(?:Permission is hereby granted|Permission to use|Redistribution and use|Apache License\s+Version 2|Licensed under the Apache)/;
const titleLine =
  /^(?:the |this is the |this software is released under the )?(?:mit|isc|bsd)(?:[ -][23][ -]clause)?(?: license)?(?: \(mit)?$|^license$/;

/**
 * Throws unless the package names a permissive licence and ships the text of that very licence; the message
 * names the package and what is missing.
 */
export function verifyLicense(pkg: PackageFiles): void {
  const pattern = permissive.get(pkg.license);
  if (pattern === undefined) {
    const known = [...permissive.keys()].join(', ');
    throw new Error(
      `${pkg.name}: its license is "${pkg.license}", not one of ${known}. Leave the package out.`,
    );
  }
  if (!pattern.test(pkg.licenseText.replaceAll(/\s+/g, ' '))) {
    throw new Error(`${pkg.name}: ships no text of ${pkg.license}. Leave the package out.`);
  }
}

/**
 * The NOTICE of the samples: one line per package with version, licence and copyright holder, then every
 * licence text once (texts that differ in white space, quotes and bullets only are the same), then the
 * packages' own notices.
 */
export function composeNotice(packages: readonly PackageFiles[]): string {
  const texts = new Map<string, { number: number; license: string; text: string }>();
  const rows = packages.map((pkg) => {
    const text = termsOf(pkg.licenseText);
    const key = `${pkg.license} ${comparable(text)}`;
    const entry = texts.get(key) ?? { number: texts.size + 1, license: pkg.license, text };
    texts.set(key, entry);
    return `${pkg.name} ${pkg.version} | ${pkg.license}, text ${entry.number} | ${copyrightHolder(pkg)}`;
  });
  const notices = packages.filter((pkg) => pkg.noticeText.trim() !== '');
  return [
    'The release notes in samples/changelogs are verbatim excerpts of the changelogs that ship inside the npm packages',
    'below. They were selected and shortened by scripts/make-samples.ts and remain under the licences of their packages.',
    '',
    ...rows,
    ...[...texts.values()].flatMap(({ number, license, text }) => [
      '',
      rule(`Text ${number}: ${license}`),
      '',
      text,
    ]),
    ...notices.flatMap((pkg) => ['', rule(`Notice of ${pkg.name}`), '', pkg.noticeText.trim()]),
    '',
  ].join('\n');
}

function rule(title: string): string {
  return `---- ${title} `.padEnd(110, '-');
}

/**
 * The terms, verbatim, without what is different in every package. The appendix of Apache-2.0 is no part of
 * them.
 */
function termsOf(licenseText: string): string {
  const text = licenseText.replaceAll('\r\n', '\n');
  const terms = text.slice(Math.max(0, text.search(termsStart))).trim();
  const apacheEnd = terms.indexOf('END OF TERMS AND CONDITIONS');
  return (apacheEnd === -1 ? terms : terms.slice(0, apacheEnd + 'END OF TERMS AND CONDITIONS'.length))
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}

/** Everything before the terms but the title; for Apache-2.0 the filled-in line of the appendix. */
function copyrightHolder(pkg: PackageFiles): string {
  const text = pkg.licenseText.replaceAll('\r\n', '\n');
  const appendix = text.split('END OF TERMS AND CONDITIONS')[1];
  const lines = (appendix ?? text.slice(0, Math.max(0, text.search(termsStart))))
    .split('\n')
    .map((line) => line.replaceAll(/^[\s#(*_]+|[\s*_]+$/g, '').replaceAll(/\s+/g, ' '))
    .map((line) => line.replace(/^MIT License (?=Copyright)/, ''));
  const holders = lines.filter((line) =>
    appendix === undefined
      ? line !== '' && !titleLine.test(line.toLowerCase().replaceAll(/[):.]+$/g, ''))
      : /^copyright /i.test(line) && !line.includes('[yyyy]') && !line.includes('{yyyy}'),
  );
  return holders.length > 0 ? holders.join('; ') : `the authors of ${pkg.name}; its licence names no holder`;
}

/** Licence texts are the same when only white space, quotes and bullets differ. */
function comparable(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9.]+/g, ' ')
    .trim();
}
