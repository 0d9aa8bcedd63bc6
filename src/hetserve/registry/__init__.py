"""What there is of each family: a registry for each family, an entry for each member.

The choices and help of the command line, the schema of the chart and the tables in docs/ derive from these entries.
An entry names its member as `module:function` and imports it on use, since `hetserve --help` only needs names.
"""
