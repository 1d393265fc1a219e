import type { Rule } from 'eslint';

/** Pronouns in place of a subject. */
const BANNED = /\b(whoever|nobody|somebody|anybody)\b/gi;

/** Finds the banned words of a text. */
export function bannedWords(text: string): readonly string[] {
  return text.match(BANNED) ?? [];
}

/** Refuses banned words in comments, strings and templates. */
export const plainWords: Rule.RuleModule = {
  meta: {
    type: 'problem',
    schema: [],
    messages: { banned: "Name the subject instead of '{{word}}'." },
  },
  create(context) {
    const check = (loc: Rule.Node['loc'], text: string): void => {
      if (loc == null) return;
      for (const word of bannedWords(text)) context.report({ loc, messageId: 'banned', data: { word } });
    };
    return {
      Program: () => {
        for (const { loc, value } of context.sourceCode.getAllComments()) check(loc, value);
      },
      Literal: ({ loc, value }) => {
        if (typeof value === 'string') check(loc, value);
      },
      TemplateElement: ({ loc, value }) => {
        check(loc, value.raw);
      },
    };
  },
};
