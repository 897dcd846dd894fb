# How the variants converge, as a picture.
python -m ballast_cfr plot leduc leduc.svg --variants CFR,CFRPlus,DCFR,PCFRPlus --iterations 1000
