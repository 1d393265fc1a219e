/** Marks the window if a script of theirs runs. */
const MARK = 'window.hostile=1';
const SITE = 'https://hostile.example';

const MARKUP = [
  `<script>${MARK}</script>`,
  `<img src=x onerror=${MARK}>`,
  `<svg onload=${MARK}>`,
  `<iframe srcdoc="<script>parent.${MARK}</script>"></iframe>`,
  `<img src="${SITE}/pixel.png">`,
  `<link rel=stylesheet href="${SITE}/style.css">`,
  `<style>@import url("${SITE}/style.css");</style>`,
  `<a href="javascript:${MARK}" autofocus onfocus=${MARK}>here</a>`,
  `<base href="${SITE}/">`,
  `<meta http-equiv=refresh content="0;url=${SITE}">`,
  `<object data="${SITE}/x.swf"></object>`,
  `<form action="javascript:${MARK}"><button>go</button></form>`,
  `<template><script>${MARK}</script></template>`,
  `<math><mtext><mglyph><style><img src=x onerror=${MARK}>`,
  `[here](javascript:${MARK})`,
  `![pixel](${SITE}/pixel.png)`,
  `{{constructor.constructor('${MARK}')()}}`,
  `\${${MARK}}`,
  `javascript:${MARK}`,
  '\u202Egnp.exe\u2066\u200B\uFEFF',
];

/** Ways out of where a text stands. */
const AROUND: readonly (readonly [before: string, after: string])[] = [
  ['', ''],
  ['">', ''],
  ["'>", ''],
  ['</textarea>', ''],
  ['</title></script>', ''],
  ['-->', '<!--'],
  ['&lt;', '&gt;'],
  ['%3C', '%3E'],
  ['__proto__ ', ' constructor'],
  ['\u2028', '\u2029'],
];

/** Texts that try to be more than text. */
export const HOSTILE: readonly string[] = AROUND.flatMap(([before, after]) =>
  MARKUP.map((text) => `${before}${text}${after}`),
);
