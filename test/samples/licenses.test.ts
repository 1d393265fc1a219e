import { expect, test } from 'vitest';
import { composeNotice, verifyLicense } from '../../scripts/samples/licenses.ts';
import type { PackageFiles } from '../../scripts/samples/obtain.ts';

const terms =
  'Permission is hereby granted, free of charge, to any person obtaining a copy\nof this software.';

function pkg(name: string, license: string, licenseText: string): PackageFiles {
  return { name, version: '1.0.0', license, licenseText, changelog: '', changelogSha256: '', noticeText: '' };
}

test('only permissive licences pass', () => {
  expect(() => verifyLicense(pkg('a', 'MIT', `MIT License\n\nCopyright A\n\n${terms}`))).not.toThrow();
  expect(() => verifyLicense(pkg('a', 'GPL-3.0', terms))).toThrow(/^a: its license is "GPL-3.0"/);
  expect(() => verifyLicense(pkg('a', '', terms))).toThrow(/^a: its license is ""/);
  expect(() => verifyLicense(pkg('a', 'toString', terms))).toThrow(/^a: its license is "toString"/);
});

test('a package that ships another text than the licence it names does not pass', () => {
  expect(() => verifyLicense(pkg('a', 'Apache-2.0', terms))).toThrow(/^a: ships no text of Apache-2.0/);
  expect(() => verifyLicense(pkg('a', 'MIT', ''))).toThrow(/^a: ships no text of MIT/);
});

test('a licence text that differs by holder and line ends only stands in the notice once', () => {
  const notice = composeNotice([
    pkg('a', 'MIT', `The MIT License (MIT)\n\nCopyright (c) 2020 A\nCopyright (c) 2021 B\n\n${terms}\n`),
    pkg('b', 'MIT', `Copyright C and others\r\n\r\n${terms.replaceAll('\n', ' ')}`),
    pkg('c', 'ISC', 'Copyright D\n\nPermission to use, copy, modify, and distribute this software'),
  ]);
  expect(notice).toContain('a 1.0.0 | MIT, text 1 | Copyright (c) 2020 A; Copyright (c) 2021 B\n');
  expect(notice).toContain('b 1.0.0 | MIT, text 1 | Copyright C and others\n');
  expect(notice).toContain('c 1.0.0 | ISC, text 2 | Copyright D\n');
  expect(notice.split('Permission is hereby granted').length).toBe(2);
});

test('a NOTICE that a package ships is passed on', () => {
  const notice = composeNotice([
    { ...pkg('a', 'MIT', `Copyright A\n${terms}`), noticeText: 'Thanks to Z.\n' },
  ]);
  expect(notice).toContain('Notice of a');
  expect(notice).toContain('Thanks to Z.');
});
